"""What iterations cost with each draft, and what it costs to switch to one that is in memory."""

from collections.abc import Sequence

from memspec_actors.protocols.feedback import Feedback

__all__ = ["IterationCosts"]

DOUBT = 4.0  # iterations' worth of believing that a draft costs what the others do


class IterationCosts:
    """Measure times over one text; before anything is known all drafts cost the same and switches nothing."""

    def __init__(self, drafts: Sequence[str]) -> None:
        self._num = dict.fromkeys(drafts, 0)
        self._us = dict.fromkeys(drafts, 0.0)
        self._num_switches = 0
        self._catch_up_us = 0.0
        self._last: str | None = None

    def observe(self, feedback: Feedback) -> None:
        if feedback.draft is None:
            return
        if feedback.draft != self._last:
            self._num_switches += 1
            self._catch_up_us += feedback.catch_up_us
        self._last = feedback.draft
        self._num[feedback.draft] += 1
        self._us[feedback.draft] += feedback.cost_us - feedback.catch_up_us

    def relative(self, draft: str) -> float:
        """Return the cost of an iteration with a draft over the mean of all iterations that drafted."""
        mean_us = self._mean_us
        if mean_us == 0.0:
            return 1.0
        return (self._us[draft] / mean_us + DOUBT) / (self._num[draft] + DOUBT)

    @property
    def switch(self) -> float:
        """The mean time in which a draft caught up when it was switched to, in iterations."""
        mean_us = self._mean_us
        return self._catch_up_us / self._num_switches / mean_us if mean_us else 0.0

    @property
    def _mean_us(self) -> float:
        return sum(self._us.values()) / max(sum(self._num.values()), 1)
