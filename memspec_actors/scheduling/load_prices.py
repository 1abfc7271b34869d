"""How probably a draft must be needed for its load to pay.

While a draft is read, decoding is slower: both use the memory. Of each iteration that a load lasts it costs a share s,
by which iterations beside loads take longer than quiet ones with the same draft and length. To hold a draft ready
saves, if it comes to be needed, the wait for its load, of which each iteration loses a share GAIN, and the load itself:
P (GAIN + s). So a load pays from P = s / (GAIN + s) on.
"""

from collections import defaultdict
from dataclasses import dataclass

from memspec_actors.protocols.feedback import Feedback

__all__ = ["LoadPrices"]

DOUBT = 4.0  # iterations' worth of believing that loads do not slow them down
GAIN = 0.5  # drafts made for the text are about twice as fast as others

Kind = tuple[str | None, int]  # draft and number of drafted tokens


@dataclass(slots=True)
class _Times:
    """Add up how long iterations of one kind took."""

    num: int = 0
    us: float = 0.0

    def add(self, us: float) -> None:
        self.num += 1
        self.us += us

    @property
    def mean_us(self) -> float:
        return self.us / max(self.num, 1)


class LoadPrices:
    """Measure over all texts, for this is the machine's; before anything is known loads are free."""

    def __init__(self) -> None:
        self._quiet: defaultdict[Kind, _Times] = defaultdict(_Times)
        self._beside: defaultdict[Kind, _Times] = defaultdict(_Times)

    def observe(self, feedback: Feedback, *, beside_load: bool) -> None:
        """Hear of an iteration, and whether a load was under way beside it."""
        times = (self._beside if beside_load else self._quiet)[feedback.draft, feedback.drafted]
        times.add(feedback.run_us)

    @property
    def to_hold(self) -> float:
        """The probability with which a draft must be needed next to be worth its load."""
        slower = max(0.0, self._slower)
        return slower / (GAIN + slower)

    @property
    def _slower(self) -> float:
        pairs = [(each, self._quiet[kind]) for kind, each in self._beside.items() if kind in self._quiet]
        usual_us = sum(each.num * quiet.mean_us for each, quiet in pairs)
        if not usual_us:
            return 0.0
        share_of_known = 1.0 + DOUBT / sum(each.num for each, _ in pairs)
        return (sum(each.us for each, _ in pairs) / usual_us - 1.0) / share_of_known
