"""Hedge: learn from every draft that reads along, whether it ran or not (Freund and Schapire 1997)."""

import math
from collections.abc import Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.evidence import Agreement
from memspec_actors.scheduling.rankers import Ranking, RankingContext

__all__ = ["HedgeRanker"]


class HedgeRanker:
    """Rank by what the drafts gained over the average draft, the newest tokens counting most.

    A draft's gain is the sum over the tokens known of it of ``discount ** age * (agreed - average)``; its weight is
    ``exp(gain)`` over the sum of all. A draft of which nothing is known gains nothing: it comes before those that do
    worse than the average, and so gets a place in memory and a chance to read along.
    """

    def __init__(self, drafts: Sequence[str], discount: float) -> None:
        self._drafts = tuple(drafts)
        self._discount = discount
        self._agreement = Agreement(drafts)

    def rank(self, context: RankingContext) -> Ranking:
        sums = {draft: self._sums(draft) for draft in self._drafts}
        agreed, known = (sum(column) for column in zip(*sums.values(), strict=True))
        average = agreed / known if known else 0.0
        powers = {draft: math.exp(agreed - average * known) for draft, (agreed, known) in sums.items()}
        order = sorted(powers, key=lambda draft: -powers[draft])  # stable: equals stay in the order given
        return Ranking(tuple(order), tuple(powers[draft] / sum(powers.values()) for draft in order))

    def observe(self, feedback: Feedback) -> None:
        self._agreement.observe(feedback)

    def _sums(self, draft: str) -> tuple[float, float]:
        """Sum up the weights of the tokens at which a draft agreed, and of all that are known of it."""
        weighted = [(self._discount**age, agrees) for age, agrees in self._agreement.of(draft)]
        return sum(weight for weight, agrees in weighted if agrees), sum(weight for weight, _ in weighted)
