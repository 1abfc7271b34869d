"""If these fail, replays fit toys only: real models are drafted with in one call, and rounded otherwise."""

from pathlib import Path
from typing import Any

import pytest

from memspec_actors import zoo
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.predictor.collect import encode_prompt
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from memspec_actors.simulation.texts import Text
from memspec_actors.telemetry.event_log import EventLog
from tests.simulation.test_replay import history, profile
from tests.simulation.toys import ShiftingRanker, Toys, schedule

DRAFTS = ("general", "law", "medical")
PROMPT = "caution Buspril for Femer, age 32; compose new_beto for Pulal, limit=50"


@pytest.fixture(scope="module")
def models() -> Toys:
    """The embedded models, in the places of toys."""
    tokenizer = Tokenizer.open(zoo.path("target"))
    prompt = tuple(encode_prompt(tokenizer, PROMPT))
    toys = Toys(seed=0, rates=(), max_new_tokens=60, k=5, eos_ids=frozenset({2}), prompt=prompt)
    runners: Any = {name: open_runner(Checkpoint.open(zoo.path(name))) for name in ("target", *DRAFTS)}
    toys.num_ids, toys.target = tokenizer.num_ids, runners.pop("target")
    toys.drafts = runners
    return toys


@pytest.fixture(scope="module")
def text(models: Toys) -> Text:
    return models.trace(free_runs=True)


@pytest.mark.parametrize("stop", ["entropy", "confidence", "adaedl", "gain"])
def test_a_replay_is_what_the_engine_does_with_checkpoints(models: Toys, text: Text, stop: str, tmp_path: Path) -> None:
    policy = parse_policy("memspec", DRAFTS)
    setting = Setting(profile=profile(1.7), schedule=schedule(3), capacity=2, stop=stop)
    real = models.decode(policy, ShiftingRanker(5, DRAFTS), setting, tmp_path / "real")
    log = EventLog.open(tmp_path / "replay")
    replayed = replay(*text, policy, lambda: ShiftingRanker(5, DRAFTS), setting, log)
    log.close()
    assert history(tmp_path / "replay") == history(tmp_path / "real")
    assert replayed.metrics == real.metrics
    assert replayed.metrics.speculative_decoding.num_draft_tokens > 20, "the text is a poor choice for a test"
