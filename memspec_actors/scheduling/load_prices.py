"""What a load costs decoding, and how probably a draft must be the right one for that to pay.

While a draft is read, decoding is slower: both use the memory. A load lasts l iterations and costs c = s l, where s is
the share by which iterations beside loads take longer than quiet ones with the same draft and length. With the right
draft decoding gains a share g of each iteration.

To run a draft for the next L iterations brings P g L and costs c: the price is P = c / (g L). To hold one ready saves,
if it comes to be needed, the wait for its load and the load itself, P (g l + c): the price is P = c / (g l + c).
"""

from collections import defaultdict
from typing import NamedTuple

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.iteration_costs import Times

__all__ = ["LoadPrices", "Prices"]

DOUBT = 4.0  # iterations' worth of believing that loads do not slow them down
LEAST_GAIN = 0.01  # nothing is priced beyond a hundredfold

Kind = tuple[str | None, int]  # draft and number of drafted tokens


class Prices(NamedTuple):
    """What a load costs, in probability: that of a draft to run at once, and of one to stand ready."""

    to_run: float
    to_hold: float


class LoadPrices:
    """Measure over all texts, for this is the machine's; before anything is known loads are free."""

    def __init__(self) -> None:
        self._quiet: defaultdict[Kind, Times] = defaultdict(Times)
        self._beside: defaultdict[Kind, Times] = defaultdict(Times)
        self._num_loads = self._num_beside = 0

    def observe(self, feedback: Feedback, *, beside_load: bool) -> None:
        """Hear of an iteration, and whether a load was under way beside it."""
        times = (self._beside if beside_load else self._quiet)[feedback.draft, feedback.drafted]
        times.add(feedback.run_us)
        self._num_beside += beside_load

    def arrived(self, num_loads: int) -> None:
        """Hear that loads have ended."""
        self._num_loads += num_loads

    @property
    def cost(self) -> float:
        """The cost of a load, in iterations."""
        pairs = [(each, self._quiet[kind]) for kind, each in self._beside.items() if kind in self._quiet]
        usual_us = [each.num * quiet.mean_us for each, quiet in pairs]
        if not sum(usual_us):
            return 0.0
        share_of_known = 1.0 + DOUBT / sum(each.num for each, _ in pairs)
        slower = (sum(each.us for each, _ in pairs) / sum(usual_us) - 1.0) / share_of_known
        return max(0.0, slower) * self._load

    def at(self, gain: float, left: float) -> Prices:
        """Return the prices for the ``left`` iterations to come, of each of which the right draft gains ``gain``."""
        cost, gain = self.cost, max(gain, LEAST_GAIN)
        return Prices(cost / (gain * left), cost / (gain * self._load + cost)) if cost else Prices(0.0, 0.0)

    @property
    def _load(self) -> float:
        return self._num_beside / self._num_loads if self._num_loads else 0.0
