"""What a load costs decoding, and how probably a draft must be the best one for that to pay.

While a draft is read, decoding is slower: both use the memory. A load lasts l iterations and costs c = s l, where s is
the share by which iterations beside loads take longer than quiet ones with the same draft and length. With the wrong
draft an iteration gives one token, so the right one is worth a share g = 1 - 1 / (tokens per iteration) of each.

To run a draft for the next L iterations brings P g L and costs c: the price is P = c / (g L). To hold one ready saves,
if it comes to be needed, the wait for its load and the load itself, P (g l + c): the price is P = c / (g l + c).
"""

from collections import defaultdict
from dataclasses import dataclass

from memspec_actors.protocols.feedback import Feedback

__all__ = ["LoadPrices"]

DOUBT = 4.0  # iterations' worth of believing that loads do not slow them down

Kind = tuple[str | None, int]  # draft and number of drafted tokens


@dataclass(slots=True)
class _Times:
    num: int = 0
    us: float = 0.0


class LoadPrices:
    """Measure over all texts, for this is the machine's; before anything is known loads are free."""

    def __init__(self) -> None:
        self._quiet: defaultdict[Kind, _Times] = defaultdict(_Times)
        self._beside: defaultdict[Kind, _Times] = defaultdict(_Times)
        self._num_loads = self._num_beside = 0
        self._num_iterations = self._num_tokens = 0

    def observe(self, feedback: Feedback, *, beside_load: bool) -> None:
        """Hear of an iteration, and whether a load was under way beside it."""
        times = (self._beside if beside_load else self._quiet)[feedback.draft, feedback.drafted]
        times.num += 1
        times.us += feedback.cost_us - feedback.catch_up_us
        self._num_beside += beside_load
        if feedback.draft is not None:
            self._num_iterations += 1
            self._num_tokens += feedback.emitted

    def arrived(self, num_loads: int) -> None:
        """Hear that loads have ended."""
        self._num_loads += num_loads

    @property
    def cost(self) -> float:
        """The cost of a load, in iterations."""
        pairs = [(each, self._quiet[kind]) for kind, each in self._beside.items() if kind in self._quiet]
        usual_us = [each.num * quiet.us / quiet.num for each, quiet in pairs]
        if not sum(usual_us) or not self._gain:
            return 0.0
        share_of_known = 1.0 + DOUBT / sum(each.num for each, _ in pairs)
        slower = (sum(each.us for each, _ in pairs) / sum(usual_us) - 1.0) / share_of_known
        return max(0.0, slower) * self._load

    def to_run(self, left: float) -> float:
        """Return the price of a draft that is to run for the ``left`` iterations to come."""
        cost = self.cost
        return cost / (self._gain * left) if cost else 0.0

    def to_hold(self) -> float:
        """Return the price of a draft that is to stand ready."""
        cost = self.cost
        return cost / (self._gain * self._load + cost) if cost else 0.0

    @property
    def _load(self) -> float:
        return self._num_beside / self._num_loads if self._num_loads else 0.0

    @property
    def _gain(self) -> float:
        return 1.0 - self._num_iterations / self._num_tokens if self._num_tokens else 0.0
