"""Bandits: learn which draft is best by running them (BanditSpec; MemSpec, section 2.3 and its baselines)."""

import math
from collections.abc import Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.rankers import Ranking, RankingContext

__all__ = ["UcbRanker"]


class UcbRanker:
    """Rank by the upper confidence bound of the tokens that an iteration of a draft emits (UCB1).

    Each iteration pulls the arm of the draft that ran. Drafts that never ran come first, in the order given; then
    ``mean + exploration * sqrt(ln(pulls of all arms) / pulls of this arm)``, highest first.
    """

    def __init__(self, drafts: Sequence[str], exploration: float) -> None:
        self._exploration = exploration
        self._pulls = dict.fromkeys(drafts, 0)
        self._tokens = dict.fromkeys(drafts, 0)

    def rank(self, context: RankingContext) -> Ranking:
        bounds = {draft: self._bound(draft) for draft in self._pulls}
        order = sorted(bounds, key=lambda draft: -bounds[draft])  # stable: equals stay in the order given
        return Ranking(tuple(order), tuple(bounds[draft] for draft in order))

    def observe(self, feedback: Feedback) -> None:
        """Count a pull and its reward; a plain target step pulls no arm."""
        if feedback.draft is not None:
            self._pulls[feedback.draft] += 1
            self._tokens[feedback.draft] += feedback.emitted

    def _bound(self, draft: str) -> float:
        pulls = self._pulls[draft]
        if not pulls:
            return math.inf
        bonus = math.sqrt(math.log(sum(self._pulls.values())) / pulls)
        return self._tokens[draft] / pulls + self._exploration * bonus
