"""``memspec doctor``: it must not say ok of something that is not."""

import importlib.metadata
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import torch

from memspec_actors import zoo
from memspec_actors.cli import doctor_checks, main
from memspec_actors.cli.doctor_checks import run_checks
from memspec_actors.cli.doctor_line import Check
from memspec_actors.cli.doctor_speed import check_speed, kernel_check, threads_check
from memspec_actors.models.devices.device import DeviceMemory
from tests.models.fake_device import FakeDevice


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Embedded models, as far as doctor looks at them."""
    for name in ("target", "general", "code", "math", "law", "medical", "encoder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
        (tmp_path / name / "model.safetensors").write_bytes(bytes(1_500_000))
    monkeypatch.setattr(zoo, "_WEIGHTS", tmp_path)
    measured = [Check("kernels", "ok", "as fast as ever"), Check("threads", "ok", "several")]
    monkeypatch.setattr("memspec_actors.cli.doctor_speed.check_speed", lambda: iter(measured))
    return tmp_path


def checks() -> dict[str, Check]:
    return {check.name: check for check in run_checks()}


def test_json_holds_every_check(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["ok"] is True
    assert {
        "python",
        "torch",
        "torch build",
        "threads",
        "kernels",
        "gpu",
        "cpu",
        "memory",
        "embedded models",
        "storage",
    } <= {check["name"] for check in report["checks"]}
    assert {check["status"] for check in report["checks"]} <= {"ok", "warn"}


def test_a_configuration_that_cannot_be_read_is_refused(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would say ok of a file that nothing can be run with."""
    assert main(["doctor", "--config", str(models / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_every_line_that_is_not_ok_says_what_to_do(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "_lines", lambda file: [])
    monkeypatch.setattr(doctor_checks, "_time_cold_read", lambda file: 3.0)
    (models / "law" / "config.json").unlink()
    troubled = [check for check in run_checks() if check.status != "ok"]
    assert {"cpu", "memory", "embedded models", "storage"} <= {check.name for check in troubled}
    assert [check for check in troubled if not check.advice] == []


def test_missing_package_fails(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def version(package: str) -> str:
        if package == "safetensors":
            raise importlib.metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(doctor_checks, "version", version)
    assert main(["doctor"]) == 1
    assert "fail  safetensors" in capsys.readouterr().out


def test_missing_model_fails_and_is_named(models: Path) -> None:
    (models / "law" / "config.json").unlink()
    check = checks()["embedded models"]
    assert (check.status, check.found) == ("fail", "missing: law")


def test_cold_read_is_measured_over_the_whole_file(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A speed that left out a part of the file would promise faster loads than there are."""
    monkeypatch.setattr(doctor_checks, "_time_cold_read", lambda file: 0.01)
    assert checks()["storage"].found == "a draft of 1.5 MB is read in 10.0 ms, 150 MB/s"


@pytest.mark.parametrize(("available", "status"), [(1.0, "warn"), (8.0, "ok")])
def test_memory_is_what_is_available(monkeypatch: pytest.MonkeyPatch, available: float, status: str) -> None:
    lines = ["MemTotal:       16777216 kB", f"MemAvailable:   {int(available * 2**20)} kB"]
    monkeypatch.setattr(doctor_checks, "_lines", lambda file: lines)
    check = doctor_checks._check_memory()
    assert (check.status, check.found) == (status, f"{available} of 16.0 GiB available")


@pytest.mark.parametrize(("flags", "status"), [("avx2 avx512_bf16 fma", "ok"), ("avx2 fma", "warn")])
def test_bfloat16_needs_the_processor(monkeypatch: pytest.MonkeyPatch, flags: str, status: str) -> None:
    monkeypatch.setattr(doctor_checks, "_lines", lambda file: [f"flags\t\t: fpu {flags}"])
    check = doctor_checks._check_cpu()
    assert check.status == status
    assert "avx2" in check.found.split()


def test_broken_extra_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra that is installed but does not import must not look as if it could be used."""
    (tmp_path / "broken_extra.py").write_text("raise ImportError('too old')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor_checks._check_extra("auto-gptq", "broken_extra", "only to quantise")
    assert (check.status, check.found) == ("warn", "does not import: ImportError: too old")
    assert "broken_extra" not in sys.modules
    assert doctor_checks._check_extra("auto-gptq", "absent_extra", "only to quantise").status == "ok"


def test_every_extra_for_users_is_looked_at() -> None:
    """Who lacks one would learn of it only from the command that fails."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(doctor_checks.EXTRAS) == set(project["optional-dependencies"]) - {"test", "dev"}


def test_kernels_are_compared_with_float32() -> None:
    """A slower number format would be advised, or a faster one kept from the user."""
    times = {"float32": [100.0, 200.0], "bfloat16": [100.0, 50.0], "int8": [50.0, 100.0], "int4": [25.0, 80.0]}
    check = kernel_check(times)
    assert (
        check.found == "times as fast as float32, for 1 / 6 tokens: bfloat16 1.0 / 4.0, int8 2.0 / 2.0, int4 4.0 / 2.5"
    )
    assert (check.status, check.advice.split("dtype = ")[1]) == ("ok", '"int8" or "int4", rounded')
    slow = kernel_check({"float32": [100.0, 200.0], "bfloat16": [110.0, 9.0], "int8": [90.0, 9.0], "int4": [99.0, 9.0]})
    assert 'keep [target] dtype = "float32"' in slow.advice
    broken = kernel_check({"float32": [1.0, 1.0], "bfloat16": [1.0, 1.0]})
    assert broken.status == "warn"
    assert "no sound kernel for int8 int4" in broken.found


@pytest.mark.parametrize(
    ("cores", "many_us", "status", "advice"),
    [
        (1, 100.0, "ok", "share the one core"),
        (2, 400.0, "warn", "keep [target] threads = 1, and end what else"),
        (2, 90.0, "ok", "keep [target] threads = 1"),
        (6, 20.0, "ok", 'threads = "auto"'),
    ],
)
def test_threads_are_advised_where_they_help(cores: int, many_us: float, status: str, advice: str) -> None:
    check = threads_check(cores, 100.0, many_us)
    assert check.status == status
    assert advice in check.advice


def test_what_is_measured_is_given_back() -> None:
    """The rest of the process would go on with another number of threads."""
    before = torch.get_num_threads()
    assert [check.name for check in check_speed()] == ["kernels", "threads"]
    assert torch.get_num_threads() == before


def test_a_build_without_its_libraries_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    check = doctor_checks._check_build(torch)
    assert check.status == "warn"
    assert "no oneDNN" in check.found


def test_every_gpu_is_told_of_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would run on the CPU beside a GPU, or plan for memory that others have taken."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: "Big GPU")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    def opened(name: str) -> FakeDevice:
        if name == "cuda:1":
            raise RuntimeError("CUDA error: device busy\nCompile with TORCH_USE_CUDA_DSA")
        return FakeDevice(DeviceMemory(3 << 30, 8 << 30))

    monkeypatch.setattr("memspec_actors.models.devices.opening.open_device", opened)
    first, second = doctor_checks._check_gpu(torch)
    assert (first.status, second.status) == ("ok", "warn")
    assert "Big GPU, 3.0 of 8.0 GiB free" in first.found
    assert 'device = "cuda:0"' in first.found
    assert "device busy" in second.found
    assert "\n" not in second.found
