"""``memspec zoo``: names, sizes and directories."""

from pathlib import Path

import msgspec
import pytest

from memspec_actors import zoo
from memspec_actors.cli import main


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
