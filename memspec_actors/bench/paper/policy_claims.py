"""What is claimed of policies, as more than one study does: which is faster than which, and what time is lost.

Goals are those of mixed prompts on storage on which a load takes 2.7 iterations, if nothing else is said.
"""

from memspec_actors.bench.paper.claims import Claim
from memspec_actors.bench.paper.figures import Figure, Quotient, Ratio, busy, share
from memspec_actors.comparison import BASE

__all__ = [
    "FALLBACK",
    "LEVEL",
    "NOISE",
    "OVER_DOMAINS",
    "OVER_DYNAMIC",
    "OVER_GENERAL",
    "OVER_MAB",
    "OVER_PLAIN",
    "busy_ranking",
    "fallback",
    "growth",
    "over",
]

NOISE = 0.99  # a ratio above it is no slow-down that a run could show
LEVEL = 0.95  # the paper calls gains unchanged that differ by less


def growth(policy: str, above: str, below: str) -> Quotient:
    """Compare the gains over General-Static in two settings of what a study varies."""
    return Quotient(Ratio(policy, setting=above), Ratio(policy, setting=below))


def over(policy: str, other: str, paper: str = "", goal: float | None = None) -> Claim:
    """Compare the throughputs of two policies."""
    return Claim(says=f"{policy} over {other}", ours=Ratio(policy, other), paper=paper, goal=goal)


def fallback(policy: str, paper: str = "", goal: float | None = None) -> Claim:
    """Give the share of time in which the preferred draft was not in memory, and another ran."""
    return _at_most(f"{policy}: fallback", share(policy, "fallback"), paper, goal)


def busy_ranking(policy: str, paper: str = "") -> Claim:
    """Give the processor time of ranking over decode time."""
    return _at_most(f"{policy}: ranking, beside decoding", busy(policy), paper, 0.039)


def _at_most(says: str, figure: Figure, paper: str, goal: float | None) -> Claim:
    return Claim(says=says, ours=figure, paper=paper, goal=goal, at_most=True, percent=True)


OVER_GENERAL = over("memspec", BASE, "1.588", 1.588)
OVER_MAB = over("memspec", "mab-async", "1.407", 1.407)
OVER_PLAIN = over("memspec+", "memspec", goal=NOISE)
OVER_DOMAINS = over("memspec", "domain-oracle", goal=0.97)
OVER_DYNAMIC = over("memspec", "oracle-dynamic", "0.95–0.97", 0.92)
FALLBACK = fallback("memspec", "< 5.5 %", 0.055)
