"""One real run of the embedded models under several policies, with a crash in it, and its log."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from memspec_actors import Config, MemSpec
from memspec_actors.config import EventsConfig
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.scheduling.residency import ResidencyCounts
from memspec_actors.telemetry import read
from memspec_actors.zoo.world import sample_request

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
    prompt = sample_request(random.Random("eval:1"), ("medical", "code", "law", "math"), split="eval").prompt_text
    async with MemSpec.open(Config(events=EventsConfig(path=str(path)))) as engine:
        assert engine._predictor is not None
        engine._predictor = FragileRanker(engine._predictor)
        results = [await engine.generate(prompt, max_new_tokens=160, policy=policy) for policy in POLICIES]
        queued = (engine.generate(prompt, max_new_tokens=8, policy="general-static") for _ in range(3))
        results += await asyncio.gather(*queued)
        await asyncio.sleep(0.05)  # a load that the last ranking began may end, or be cancelled
        counts = engine._residency.counts
    return RealRun(path, results, counts)


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    return asyncio.run(_run(tmp_path_factory.mktemp("run") / "events.jsonl"))


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
