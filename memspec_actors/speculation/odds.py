"""How probable it is that a token is accepted, given the distance between draft and target: AdaSD's Bayes rule."""

from collections.abc import Sequence
from dataclasses import dataclass

from memspec_actors.speculation.density import Density, DensityEstimator

__all__ = ["AcceptanceOdds", "OddsEstimator", "is_between"]


@dataclass(frozen=True, slots=True)
class AcceptanceOdds:
    """Hold the densities of the distances of accepted and of rejected tokens, as of one moment."""

    accepted: Density
    rejected: Density

    @property
    def num_accepted(self) -> int:
        return self.accepted.count

    @property
    def num_rejected(self) -> int:
        return self.rejected.count

    def probability(self, distance: float, newly_accepted: Sequence[float] = ()) -> float | None:
        """Return P(A | d) = p(d | A) P(A) / (p(d | A) P(A) + p(d | R) P(R)); None while it is undefined.

        ``newly_accepted`` are distances to be counted in. Undefined: fewer than two samples or no variance on a side,
        or no density on either. Source: AdaSD, section 4.4.
        """
        accepted = self.accepted(distance, newly_accepted)
        rejected = self.rejected(distance)
        if accepted is None or rejected is None:
            return None
        # The priors' common denominator cancels.
        accepted *= self.accepted.count + len(newly_accepted)
        rejected *= self.rejected.count
        total = accepted + rejected
        return accepted / total if total > 0.0 else None


class OddsEstimator:
    """Collect the distances of verified tokens; distances of exactly 0 or 1 tell nothing and are left out."""

    def __init__(self) -> None:
        self.accepted = DensityEstimator()
        self.rejected = DensityEstimator()

    def add(self, distance: float, *, accepted: bool) -> None:
        """Take the distance of a token that was just verified."""
        if is_between(distance):
            (self.accepted if accepted else self.rejected).add(distance)

    def snapshot(self) -> AcceptanceOdds:
        return AcceptanceOdds(self.accepted.snapshot(), self.rejected.snapshot())


def is_between(distance: float) -> bool:
    """Tell whether a distance lies strictly between 0 and 1."""
    return 0.0 < distance < 1.0
