"""If these fail, `--profile this-machine` simulates another machine, or a profile cannot be kept."""

from pathlib import Path

import msgspec
import pytest

from memspec_actors.cli import main
from memspec_actors.config import Config
from memspec_actors.errors import ConfigError
from memspec_actors.simulation.measure import WIDTHS, measure_profile
from memspec_actors.simulation.profile import open_profile


def test_a_measured_profile_is_kept_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.toml"
    assert main(["doctor", "--profile", "-o", str(path), "--json"]) == 0
    printed = msgspec.json.decode(capsys.readouterr().out)
    profile = open_profile(path)
    assert sorted(profile.target_ms) == list(WIDTHS)
    assert printed["draft_ms"] == profile.draft_ms
    assert min(profile.draft_ms, profile.catch_up_ms, profile.predict_ms, profile.load_s(1)) > 0


def test_without_a_draft_there_is_nothing_to_measure() -> None:
    with pytest.raises(ConfigError, match="draft"):
        measure_profile(Config(drafts=()))


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--profile", "-o", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
