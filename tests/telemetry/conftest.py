"""One real run of the embedded models under several policies, with a crash in it, and its log."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from memspec_actors import MemSpec
from memspec_actors.config import ScheduleConfig
from memspec_actors.loadout import open_predictor
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.scheduling.residency_counts import ResidencyCounts
from memspec_actors.simulation.profile import open_profile
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from memspec_actors.telemetry import EventLog, read
from tests.engines import MIXED, with_events
from tests.patience import until
from tests.simulation.toys import ShiftingRanker, Toys

POLICIES = ("memspec", "general-static", "target-only", "static:law", "mab-sync:c=1", "mab-async")

E = TypeVar("E", bound=Event)
Changed = Callable[[E], E]


@dataclass(frozen=True)
class RealRun:
    """A log and what the run itself told: the results in order, and the counts of its cache."""

    path: Path
    results: list[GenerationResult]
    counts: ResidencyCounts

    @property
    def records(self) -> list[Event]:
        return [event for event in read(self.path) if isinstance(event, Event)]


class FragileRanker:
    """Fail once, in the middle of the first request."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self._calls = 0

    def rank(self, context: RankingContext) -> Ranking:
        self._calls += 1
        if self._calls == 3:
            raise RuntimeError("the ranker has a bug")
        return self._ranker.rank(context)

    def observe(self, feedback: Feedback) -> None:
        self._ranker.observe(feedback)


async def _run(path: Path) -> RealRun:
    async with MemSpec.open(with_events(path)) as engine:
        results = [await engine.generate(MIXED, max_new_tokens=160, policy=policy) for policy in POLICIES]
        queued = (engine.generate(MIXED, max_new_tokens=8, policy="general-static") for _ in range(3))
        results += await asyncio.gather(*queued)
        await until(lambda: not engine.residency().loading)  # what the last ranking began
        for name in engine.drafts:
            await engine.steer_draft("unload", name)
        await engine.steer_draft("load", "math")
        await until(lambda: "math" in engine.residency().resident)
        await engine.steer_draft("unload", "math")  # loaded for nothing
    return RealRun(path, results, engine._residency.counts)


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memspec_actors.engine.open_predictor", lambda *of: FragileRanker(open_predictor(*of)))
        return asyncio.run(_run(tmp_path_factory.mktemp("run") / "events.jsonl"))


@dataclass(frozen=True)
class TimedRun:
    """The log and the result of one request in virtual time: their times agree to the microsecond, or one is wrong."""

    records: list[Event]
    result: GenerationResult


def _replay(path: Path, policy_name: str) -> TimedRun:
    toys = Toys(seed=1, rates=[0.0, 0.2, 0.4], max_new_tokens=80, k=5, eos_ids=frozenset())
    header, record = toys.trace()
    names = tuple(header.drafts)
    policy = parse_policy(policy_name, names)
    maker = RankerMaker(
        drafts=names, predictor=lambda: ShiftingRanker(1, names), capacity=2, fits=lambda names: len(names) <= 2
    )
    setting = Setting(profile=open_profile("jetson-orin-nano"), schedule=ScheduleConfig(), capacity=2)
    log = EventLog.open(path, clock=lambda: (0.0, asyncio.get_running_loop().time()))
    result = replay(header, record, policy, lambda: maker.make(policy, seed=1), setting, log)
    log.close()
    return TimedRun([event for event in read(path) if isinstance(event, Event)], result)


@pytest.fixture(scope="package")
def timed_runs(tmp_path_factory: pytest.TempPathFactory) -> list[TimedRun]:
    directory = tmp_path_factory.mktemp("timed")
    return [_replay(directory / name, name) for name in ("memspec", "mab-sync", "target-only")]


def first(records: list[Event], kind: type[E], **fields: object) -> int:
    """Return the index of the first record of a kind with these fields."""
    return next(
        index
        for index, record in enumerate(records)
        if isinstance(record, kind) and all(getattr(record, name) == value for name, value in fields.items())
    )


def changed(records: list[Event], index: int, **fields: object) -> list[Event]:
    """Return the records with one of them changed."""
    return [*records[:index], replace(records[index], **fields), *records[index + 1 :]]
