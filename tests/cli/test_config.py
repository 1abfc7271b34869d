"""``memspec config``: what it shows loads back, what it checks is what would fail later."""

import resource
from pathlib import Path

import pytest

from memspec_actors.cli import main
from memspec_actors.cli.config_template import TEMPLATE
from memspec_actors.config import Config


def model(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}", encoding="utf-8")
    return directory


def test_template_loads_back_as_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A template that differs from the defaults would tell the user something else than what runs."""
    path = tmp_path / "memspec.toml"
    assert main(["config", "init", str(path)]) == 0
    assert Config.load(path) == Config()
    assert str(path) in capsys.readouterr().out


def test_show_keeps_the_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown is pasted into reports."""
    path = tmp_path / "memspec.toml"
    path.write_text("[serve]\napi_key = 's3cret'\n", encoding="utf-8")
    assert main(["config", "show", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    assert 'api_key = "***"' in shown


def test_template_holds_every_key() -> None:
    """A key that the template leaves out is one that nobody finds."""
    for section in Config.__struct_fields__:
        value = getattr(Config(), section)
        for key in (value[0] if isinstance(value, tuple) else value).__struct_fields__:
            assert f"\n{key} = " in TEMPLATE or f"\n# {key} = " in TEMPLATE, f"{section}.{key}"


def test_template_with_its_options_switched_on_loads(tmp_path: Path) -> None:
    """Uncommenting a line of the template must give a valid value."""
    path = tmp_path / "memspec.toml"
    lines = (
        line.removeprefix("# ") if line.startswith("# ") and " = " in line else line for line in TEMPLATE.split("\n")
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    config = Config.load(path)
    assert config.memory.budget_bytes == int(1.2 * 2**30)
    assert config.storage.bytes_per_second == 200e6
    assert config.events.path == str(tmp_path / "events.jsonl")
    assert config.events.rotate_bytes == 100_000_000


def test_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memspec.toml"
    path.write_text("# mine", encoding="utf-8")
    assert main(["config", "init", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == "# mine"
    assert "--force" in capsys.readouterr().err
    assert main(["config", "init", str(path), "--force"]) == 0
    assert Config.load(path) == Config()


def test_unwritable_place_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "init", str(tmp_path / "no" / "memspec.toml")]) == 2
    assert str(tmp_path / "no" / "memspec.toml") in capsys.readouterr().err


def test_what_a_full_disk_leaves_is_not_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next attempt would be told that the file exists already."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        assert main(["config", "init", str(tmp_path / "memspec.toml")]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be written: File too large" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_shown_configuration_loads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memspec.toml"
    path.write_text('target.model = "m"\ndrafts = [{name = "a", model = "d"}]\nmemory.budget = 77', encoding="utf-8")
    assert main(["config", "show", "--config", str(path)]) == 0
    shown = tmp_path / "elsewhere" / "shown.toml"
    shown.parent.mkdir()
    shown.write_text(capsys.readouterr().out, encoding="utf-8")
    assert Config.load(shown) == Config.load(path)


def test_check_says_what_would_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model(tmp_path / "m")
    model(tmp_path / "d")
    path = tmp_path / "memspec.toml"
    path.write_text(
        'target.model = "m"\ndrafts = [{name = "a", model = "d"}]\nschedule.policy = "static:a"', encoding="utf-8"
    )
    assert main(["config", "check", "--config", str(path)]) == 0
    assert capsys.readouterr().out == f"ok: target {tmp_path / 'm'}, drafts a, policy static:a\n"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('schedule.policy = "memspce"', "memspec"),
        ('schedule.policy = "static:law"', "law"),
        ('schedule.policy = "memspec"', "needs a predictor"),
        ('schedule.policy = "domain-oracle"', "needs a plan"),
        ('schedule.plan = "missing"', "missing"),
        ('speculation.stop = "fixd:5"', "fixed"),
        ('speculation.accept = "exactly"', "exact"),
        ('drafts = [{name = "b", model = "missing"}]', "missing"),
        ('drafts = [{name = "b", model = "empty"}]', "config.json"),
        ('predictor.path = "missing"', "[predictor] path"),
        ('events.path = "missing/log"', "[events] path"),
    ],
)
def test_check_finds_what_would_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, named: str) -> None:
    """Found now, in one line, not after the models were loaded."""
    model(tmp_path / "m")
    (tmp_path / "empty").mkdir()
    path = tmp_path / "memspec.toml"
    default = "" if line.startswith("schedule.policy") else '\nschedule.policy = "target-only"'
    path.write_text(f'target.model = "m"\n{line}{default}', encoding="utf-8")
    assert main(["config", "check", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert str(path) in error
    assert error.count("\n") == 1
