"""What iterations cost with each draft, and what it costs to switch to one that is in memory."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from memspec_actors.protocols.feedback import Feedback

__all__ = ["IterationCosts", "Times"]

DOUBT = 4.0  # iterations' worth of believing that a draft costs what the others do


@dataclass(slots=True)
class Times:
    """Add up how long iterations of one kind took."""

    num: int = 0
    us: float = 0.0

    def add(self, us: float) -> None:
        self.num += 1
        self.us += us

    @property
    def mean_us(self) -> float:
        return self.us / max(self.num, 1)


class IterationCosts:
    """Measure times over one text; before anything is known all drafts cost the same and switches nothing."""

    def __init__(self, drafts: Sequence[str]) -> None:
        self._of: dict[str, defaultdict[int, Times]] = {draft: defaultdict(Times) for draft in drafts}
        self._by_length: defaultdict[int, Times] = defaultdict(Times)
        self._all = Times()
        self._catch_ups = Times()
        self._last: str | None = None

    def observe(self, feedback: Feedback) -> None:
        if feedback.draft is None:
            return
        if feedback.draft != self._last:
            self._catch_ups.add(feedback.catch_up_us)
        self._last = feedback.draft
        for times in (self._of[feedback.draft][feedback.drafted], self._by_length[feedback.drafted], self._all):
            times.add(feedback.run_us)

    def relative(self, draft: str) -> float:
        """Return the cost of iterations with a draft over the mean of all iterations that drafted as much."""
        doubt_us = DOUBT * self._all.mean_us
        if doubt_us == 0.0:
            return 1.0
        own = self._of[draft]
        usual_us = sum(times.num * self._by_length[length].mean_us for length, times in own.items())
        return (sum(times.us for times in own.values()) + doubt_us) / (usual_us + doubt_us)

    @property
    def switch(self) -> float:
        """The mean time in which a draft caught up when it was switched to, in iterations."""
        return self._catch_ups.mean_us / self._all.mean_us if self._all.us else 0.0
