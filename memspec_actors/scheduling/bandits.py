"""Bandits: learn which draft is best by running them (BanditSpec; MemSpec, section 2.3 and its baselines)."""

import math
import random
from collections.abc import Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.rankers import Ranking, RankingContext

__all__ = ["Exp3Ranker", "UcbRanker"]


class UcbRanker:
    """Rank by the upper confidence bound of the tokens that a draft gives in the time of a mean iteration (UCB1).

    Each iteration pulls the arm of the draft that ran. Drafts that never ran come first, in the order given; then
    ``mean + exploration * sqrt(ln(pulls of all arms) / pulls of this arm)``, highest first. The mean is a renewal
    reward, tokens over time: where iterations take the same time it is the mean of the tokens that they emit.
    """

    def __init__(self, drafts: Sequence[str], exploration: float) -> None:
        self._exploration = exploration
        self._pulls = dict.fromkeys(drafts, 0)
        self._tokens = dict.fromkeys(drafts, 0)
        self._us = dict.fromkeys(drafts, 0.0)

    def rank(self, context: RankingContext) -> Ranking:
        bounds = {draft: self._bound(draft) for draft in self._pulls}
        order = sorted(bounds, key=lambda draft: -bounds[draft])  # stable: equals stay in the order given
        return Ranking(tuple(order), tuple(bounds[draft] for draft in order))

    def observe(self, feedback: Feedback) -> None:
        """Count a pull and its reward; a plain target step pulls no arm."""
        if feedback.draft is not None:
            self._pulls[feedback.draft] += 1
            self._tokens[feedback.draft] += feedback.emitted
            self._us[feedback.draft] += feedback.run_us

    def _bound(self, draft: str) -> float:
        pulls = self._pulls[draft]
        if not pulls:
            return math.inf
        num_pulls = sum(self._pulls.values())
        mean_us = sum(self._us.values()) / num_pulls
        bonus = math.sqrt(math.log(num_pulls) / pulls)
        return self._tokens[draft] / self._us[draft] * mean_us + self._exploration * bonus


class Exp3Ranker:
    """Draw the first draft at random, by weights that grow with what a draft has earned (Exp3; BanditSpec).

    ``P(d) = (1 - mixing) w(d) / sum(w) + mixing / D``. An iteration earns its speed, tokens over time, as a share of
    the highest so far, over the probability of its draft: ``w(d) *= exp(mixing / D * earned / P(d))``. An iteration of
    another draft than the one drawn (a fallback) teaches nothing. The draws are a function of ``seed``.
    """

    def __init__(self, drafts: Sequence[str], mixing: float, seed: int) -> None:
        self._mixing = mixing
        self._random = random.Random(seed)
        self._log_weights = dict.fromkeys(drafts, 0.0)
        self._drawn: tuple[str, float] | None = None  # and its probability
        self._highest = 0.0  # tokens per microsecond

    def rank(self, context: RankingContext) -> Ranking:
        probabilities = self._probabilities()
        drawn = self._random.choices(list(probabilities), list(probabilities.values()))[0]
        self._drawn = drawn, probabilities[drawn]
        order = sorted(probabilities, key=lambda draft: (draft != drawn, -probabilities[draft]))
        return Ranking(tuple(order), tuple(probabilities[draft] for draft in order))

    def observe(self, feedback: Feedback) -> None:
        """Credit the drawn draft."""
        speed = feedback.emitted / feedback.run_us
        self._highest = max(self._highest, speed)
        if self._drawn is None or feedback.draft != self._drawn[0]:
            return
        draft, probability = self._drawn
        earned = speed / self._highest
        self._log_weights[draft] += self._mixing / len(self._log_weights) * earned / probability

    def _probabilities(self) -> dict[str, float]:
        highest = max(self._log_weights.values())
        weights = {draft: math.exp(log - highest) for draft, log in self._log_weights.items()}
        total, uniform = sum(weights.values()), self._mixing / len(weights)
        return {draft: (1.0 - self._mixing) * weight / total + uniform for draft, weight in weights.items()}
