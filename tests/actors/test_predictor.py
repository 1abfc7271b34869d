"""If these fail, rankings are told too seldom, or seem to take more, or less, of a machine than they do."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from memspec_actors.actors import predictor
from memspec_actors.protocols.events import PredictionMade
from memspec_actors.protocols.messages import DraftRanking, SchedulingPoint
from memspec_actors.runtime.testing import VirtualWorkers, run_virtual
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerPool
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext, StaticRanker
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import DRAFTS, Faults
from tests.actors.world import World, read_to_end, run_world


def test_only_processor_time_of_rankings_counts_as_busy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A thread that waits for its turn takes no core away from anybody."""
    monkeypatch.setattr(predictor, "perf_counter_ns", count(0, 5_000_000).__next__)
    monkeypatch.setattr(predictor, "thread_time_ns", count(0, 2_000_000).__next__)

    async def scenario(world: World) -> None:
        result = await read_to_end(world.request(0, "memspec"))
        scheduling = result.scheduling
        assert scheduling.predictions > 2
        busy_s = scheduling.predictions * 0.002
        assert scheduling.prediction_busy_share == pytest.approx(busy_s / result.timing.decode_s)

    run_world(3, tmp_path / "log", Faults(), scenario)
    made = [event for event in read_events(tmp_path / "log") if isinstance(event, PredictionMade)]
    assert {(event.predict_us, event.cpu_us) for event in made} == {(5000.0, 2000.0)}


class Asking(StaticRanker):
    """Ask every time to hear another draft."""

    def rank(self, context: RankingContext) -> Ranking:
        return replace(super().rank(context), to_hear=("b",))


def _told(ranker: Ranker, *intervals: int) -> list[DraftRanking]:
    """Return what is told of rankings in these intervals."""
    told: list[DraftRanking] = []
    point = SchedulingPoint(
        request_id="r",
        interval=0,
        policy="static:a",
        seed=0,
        plan=None,
        prompt_ids=(1,),
        recent_ids=(),
        num_generated=0,
        tokens_left=8,
        resident=(),
        unavailable=(),
        active=None,
        feedback=(),
    )

    async def scenario() -> None:
        pool = RankerPool(lambda name: parse_policy(name, DRAFTS), lambda *_: ranker)
        listener: Any = SimpleNamespace(tell=told.append)
        nobody: Any = SimpleNamespace(tell=lambda _: None)
        actor = predictor.Predictor(
            pool=pool, decoder=listener, cache_manager=nobody, workers=VirtualWorkers(), log=EventLog.open(None)
        )
        actor.name = "predictor"
        for interval in intervals:
            await actor.receive(replace(point, interval=interval))

    run_virtual(scenario)
    return told


def test_rankings_that_are_no_news_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """memspec+ ranks amid intervals, too, mostly to find that nothing changed."""
    monkeypatch.setattr(predictor, "thread_time_ns", count(0, 2_000_000).__next__)
    told = _told(StaticRanker("a"), 0, 0, 0, 1)
    assert [(ranking.interval, ranking.cpu_us) for ranking in told] == [(0, 2000.0), (1, 6000.0)]


def test_a_question_is_news_each_time_it_is_asked() -> None:
    """A draft that has read along once would never be asked again, though the order is the same."""
    assert [(ranking.interval, ranking.to_hear) for ranking in _told(Asking("a"), 0, 0, 1)] == [
        (0, ("b",)),
        (0, ("b",)),
        (1, ("b",)),
    ]
