"""If these fail, `--profile this-machine` simulates another machine, or a profile cannot be kept."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from torch import Tensor

from memspec_actors.cli import main
from memspec_actors.config import Config
from memspec_actors.errors import ConfigError
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Cache
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.scheduling.rankers import RankingContext
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


def test_a_ranking_is_timed_as_decoding_leaves_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that follows another at once finds its code in the core's caches, and takes half as long as in an engine."""
    now, widths = [0.0], list[int]()
    forward = LeanRunner.forward

    def run_pass(runner: LeanRunner, ids: Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        now[0] += 1.0
        widths.append(len(ids))
        return forward(runner, ids, cache, logits_to_keep)

    def rank(ranker: PredictorRanker, context: RankingContext) -> None:
        has_decoded = 5 * widths.count(6) == widths.count(1) > 0
        now[0] += 0.003 if has_decoded else 0.001
        widths.clear()

    monkeypatch.setattr("memspec_actors.simulation.measure.time.perf_counter", lambda: now[0])
    monkeypatch.setattr(LeanRunner, "forward", run_pass)
    monkeypatch.setattr(PredictorRanker, "rank", rank)
    profile = measure_profile(Config())
    assert profile.predict_ms == pytest.approx(3.0)
    assert profile.draft_ms == profile.target_ms[6] == pytest.approx(1000.0)


def test_without_a_draft_there_is_nothing_to_measure() -> None:
    with pytest.raises(ConfigError, match="draft"):
        measure_profile(Config(drafts=()))


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--profile", "-o", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
