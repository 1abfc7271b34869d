"""What a world is made of: toy drafts, a check of the memory they take, and everything that goes wrong at random."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_actors.errors import LoadError
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.drafting.reader import ReadDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyRunner, ToyText
from memspec_actors.models.weights.loading import ByteProgress, Cancelled, LoadReport
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.messages import Placement, ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.scheduling.rankers import Ranking, RankingContext
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.speculation.stop import stop_rule

DRAFTS = ("a", "b", "c", "d", "e")


class Memory:
    """Check every use of the arena by itself: which bytes belong to which load, from its start to its release."""

    def __init__(self, capacity: int, budget: int) -> None:
        self.capacity, self.budget = capacity, budget
        self.ranges: dict[str, tuple[int, int]] = {}

    def take(self, draft: str, start: int, end: int) -> None:
        assert draft not in self.ranges, "behaviour 15: one load per draft at a time"
        for other, (low, high) in self.ranges.items():
            assert end <= low or start >= high, f"{draft} was loaded over {other}, which is still in use"
        self.ranges[draft] = (start, end)
        assert len(self.ranges) <= self.capacity, f"{len(self.ranges)} drafts in memory, K is {self.capacity}"
        assert sum(high - low for low, high in self.ranges.values()) <= self.budget


class Runners(dict[ResidentDraft, BoundDraft]):
    """Kill a runner the moment the Loader lets go of it: whoever uses it then fails loudly."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def pop(self, draft: ResidentDraft, default: object = None) -> BoundDraft | None:  # type: ignore[override]
        self._memory.ranges.pop(draft.name, None)
        bound = super().pop(draft, None)
        if bound is not None:
            assert isinstance(bound.runner, ToyRunner)
            bound.runner.alive = False
        return bound


@dataclass
class Faults:
    """How often what goes wrong."""

    load_fails: float = 0.0
    load_crashes: float = 0.0
    rank_crashes: float = 0.0
    progress_crashes: float = 0.0
    statistics_crash: float = 0.0
    session_crashes: float = 0.0
    rank_s: float = 0.005  # the longest that a ranking takes
    warm_s: float = 0.01  # the longest that bringing a draft up to date takes
    prefill_s: float = 0.02  # the longest that reading a prompt takes
    step_s: float = 0.012  # the longest that an iteration takes


class Reader:
    """Load toy drafts; fails and crashes at random."""

    emulated = False

    def __init__(self, rng: random.Random, faults: Faults, memory: Memory, seed: int) -> None:
        self._rng, self._faults, self._memory, self._seed = rng, faults, memory, seed

    def read(
        self, draft: str, placements: Sequence[Placement], cancelled: Cancelled, progress: ByteProgress
    ) -> ReadDraft:
        (placement,) = placements
        if cancelled():
            return ReadDraft(LoadReport(0, 0.0, False, True), None, 17)
        if self._rng.random() < self._faults.load_crashes:
            raise RuntimeError("the reader has a bug")
        if self._rng.random() < self._faults.load_fails:
            raise LoadError(f"{draft}.safetensors: ends 1 byte early")
        progress(placement.nbytes, placement.nbytes)
        rate = 0.0 if draft == "a" else 0.3
        runner = ToyRunner(seed=self._seed, error_rate=rate, error_seed=ord(draft))
        return ReadDraft(LoadReport(placement.nbytes, 0.01, False, False), runner, 17)


class ShiftingRanker:
    """Want other drafts at every scheduling point."""

    def __init__(self, rng: random.Random, faults: Faults) -> None:
        self._rng, self._faults = rng, faults

    def rank(self, context: RankingContext) -> Ranking:
        if self._rng.random() < self._faults.rank_crashes:
            raise RuntimeError("the ranker has a bug")
        order = self._rng.sample(DRAFTS, self._rng.randint(1, len(DRAFTS)))
        return Ranking(tuple(order), tuple(1.0 / (i + 1) for i in range(len(order))))

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing."""


class FragileCounters(SpeculationCounters):
    def __init__(self, rng: random.Random, faults: Faults) -> None:
        super().__init__()
        self._rng, self._faults = rng, faults

    def add_report(self, report: object) -> None:
        if self._rng.random() < self._faults.statistics_crash:
            raise RuntimeError("the statistics have a bug")


def toy_session(
    target: ToyRunner, request: GenerationRequest, *, stop: Sequence[str] = (), watches_catch_up: bool = False
) -> DecodeSession:
    """Return a request's session, as an engine opens it, for a text that no token ends."""
    state = CommitState(
        ToyText(),
        end_ids=frozenset(),
        stop=stop,
        include_stop=False,
        max_new_tokens=request.max_new_tokens,
        context_left=1000,
    )
    return DecodeSession(
        target=target,
        request=request,
        num_ids=17,
        accept=acceptance_rule(request.accept, greedy=request.sampling.greedy),
        stop_rule=stop_rule(request.stop_rule),
        state=state,
        watches_catch_up=watches_catch_up,
    )
