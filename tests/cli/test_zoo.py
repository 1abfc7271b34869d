"""``memspec zoo``: names, sizes and directories."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memspec_actors import zoo
from memspec_actors.cli import main
from memspec_actors.zoo.build import QUICK, Recipe


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, size in (("target", 3_000_000), ("code", 500_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}", encoding="utf-8")
        (tmp_path / name / "model.safetensors").write_bytes(bytes(size))
    monkeypatch.setattr(zoo, "_WEIGHTS", tmp_path)
    return tmp_path


def test_path_is_printed_alone(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts write $(memspec zoo path code)."""
    assert main(["zoo", "path", "code"]) == 0
    assert capsys.readouterr().out == f"{models / 'code'}\n"


def test_unknown_model_is_bad_use(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "path", "cod"]) == 2
    error = capsys.readouterr().err
    assert "'cod'" in error
    assert "code" in error


def test_list_gives_sizes_and_directories(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "list"]) == 0
    lines = sorted(line.split() for line in capsys.readouterr().out.splitlines())
    assert lines == [["code", "0.5", "MB", str(models / "code")], ["target", "3.0", "MB", str(models / "target")]]
    assert main(["zoo", "list", "--json"]) == 0
    listed = msgspec.json.decode(capsys.readouterr().out)
    assert {entry["name"]: (entry["bytes"], entry["path"]) for entry in listed} == {
        "code": (500_000, str(models / "code")),
        "target": (3_000_000, str(models / "target")),
    }


def test_build_options_reach_the_builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's text that is not mixed in, or toy sizes in a real build, would be found out after hours."""
    asked: dict[str, Any] = {}

    def build(out: Path, **options: Any) -> tuple[str, ...]:
        asked.update(options, out=out)
        return ("target",)

    def build_for_zoo(out: Path, progress: object, *, budget: object) -> dict[str, float]:
        asked.update(predictor_out=out, budget=budget)
        return {"top1": 1.0}

    monkeypatch.setattr("memspec_actors.zoo.build.build", build)
    monkeypatch.setattr("memspec_actors.predictor.build.build_for_zoo", build_for_zoo)
    assert main(["zoo", "build", "--out", str(tmp_path), "--texts", "a.txt", "--texts", "b.txt"]) == 0
    assert (asked["out"], asked["texts"], asked["recipe"]) == (tmp_path, [Path("a.txt"), Path("b.txt")], Recipe())
    assert (asked["predictor_out"], asked["budget"]) == (tmp_path, None)
    assert main(["zoo", "build", "--out", str(tmp_path), "--quick"]) == 0
    assert (asked["texts"], asked["recipe"]) == ((), QUICK)
    assert asked["budget"] is not None
