"""How long everything takes in a simulation: worker threads that let a profile's times pass instead of working."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.messages import Placement, SchedulingPoint
from memspec_actors.runtime import Workers
from memspec_actors.runtime.testing import Cost, VirtualWorkers
from memspec_actors.simulation.profile import DeviceProfile

__all__ = ["RankingTime", "TimedSession", "new_workers"]

CHUNKS_PER_LOAD = 16  # a load can be cancelled between two of them


@dataclass(slots=True, kw_only=True)
class TimedSession(DecodeSession):
    """A session whose iterations say that they took a profile's times."""

    profile: DeviceProfile

    def prefill(self) -> StepOutcome:
        return replace(DecodeSession.prefill(self), verify_us=self.prefill_s() * 1e6)

    def step(self, bound: BoundDraft | None) -> StepOutcome:
        outcome = DecodeSession.step(self, bound)
        return replace(
            outcome,
            catch_up_us=self.profile.catch_up_s(outcome.catch_up_tokens) * 1e6,
            draft_us=self.profile.draft_s(outcome.drafted) * 1e6,
            verify_us=self.profile.target_s(outcome.drafted + 1) * 1e6,
        )

    def prefill_s(self) -> float:
        """Return how long the prompt takes."""
        return self.profile.target_s(len(self.request.prompt_ids))

    def step_s(self, bound: BoundDraft | None) -> float:
        """Return how long the next step will take with ``bound``."""
        length = self.draft_length(bound)
        if bound is None or length == 0:
            return self.profile.iteration_s(0)
        drafted = self._num_drafted(bound, length)
        return self.profile.catch_up_s(len(self.missing(bound))) + self.profile.iteration_s(drafted)

    def _num_drafted(self, bound: BoundDraft, length: int) -> int:
        """Return how many tokens the next step will draft: it drafts beforehand, into a cache that is thrown away."""
        cache = bound.runner.new_cache(len(self.tokens) + length)
        proposal, _ = self.rules.draft(bound, cache, self.tokens, length)
        return len(proposal.ids)

    def warm_s(self, bound: BoundDraft) -> float:
        """Return how long warming a draft will take."""
        return self.profile.catch_up_s(len(self.missing(bound)))


class RankingTime:
    """Say how long a ranking takes: the predictor reads the text once an interval, all else is next to nothing.

    ``total_s`` is what rankings have taken so far.
    """

    def __init__(self, predict_s: float) -> None:
        self.total_s = 0.0
        self._predict_s = predict_s
        self._last: tuple[str, int] | None = None

    def __call__(self, rank: Callable[..., object], pool: object, point: SchedulingPoint) -> float:
        interval = point.request_id, point.interval
        if interval == self._last:
            return 0.0
        self._last = interval
        self.total_s += self._predict_s
        return self._predict_s


def new_workers(profile: DeviceProfile, ranking: RankingTime) -> Callable[[str], Workers]:
    """Return what makes the engine's workers, by name."""
    costs: Mapping[str, Callable[..., Cost]] = {
        "decode": _decode_s,
        "warm": lambda warm, bound: _session(warm).warm_s(bound),
        "rank": ranking,
        "load": lambda read, draft, placements, cancelled, progress: _load_s(profile, placements, cancelled),
    }
    return lambda name: VirtualWorkers(name, costs[name])


def _decode_s(fn: Callable[..., object], *bound: BoundDraft | None) -> float:
    return _session(fn).step_s(*bound) if bound else _session(fn).prefill_s()


def _load_s(profile: DeviceProfile, placements: Sequence[Placement], cancelled: Callable[[], bool]) -> Iterator[float]:
    nbytes = sum(placement.nbytes for placement in placements if not placement.present)
    for _ in range(CHUNKS_PER_LOAD):
        if cancelled():
            return
        yield profile.load_s(nbytes) / CHUNKS_PER_LOAD


def _session(method: Callable[..., object]) -> TimedSession:
    """Return the session that a worker was handed a method of."""
    session = getattr(method, "__self__", None)
    assert isinstance(session, TimedSession), f"{method} is no method of a timed session"
    return session
