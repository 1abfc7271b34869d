"""MemSpec+: the predictor and what the drafts achieve, each as far as it is to be trusted, and the price of a switch.

The probability that a draft is the best one is a logistic model of two witnesses: the logarithm of the predictor's
probability p, and the draft's record e, the sum over the last tokens at which it was seen, running or reading along, of
(agreed with the target) - (what drafts agree on average). Their weights lie between two settings, according to the
trust t in the predictor:

    P(d) ~ exp(a log p(d) + w e(d)),      (a, w) = t (1.3, 0.1) + (1 - t) (0.05, 0.5)

with constants that suit replayed traces of the embedded models, their predictor as it is and with its probability of
one draft suppressed. The trust is a belief that the predictor is right: every late token at which its first choice was
seen is evidence (Bayes' rule), and at each scheduling point it recovers a little, the more so the more the predictor
has changed its mind.

What counts is P(d) over the measured cost of an iteration with d, less the share of the time left that getting to it
takes: its load, if it is not in memory, and its catching up, if it is not at work. A draft that is not in memory must
also be worth what its load costs decoding (load_prices.py).
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.evidence import Agreement, sightings
from memspec_actors.scheduling.iteration_costs import IterationCosts
from memspec_actors.scheduling.load_prices import LoadPrices
from memspec_actors.scheduling.load_times import LoadTimes
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext

__all__ = ["BlendRanker", "Trust"]

TRUSTED, DISTRUSTED = (1.3, 0.1), (0.05, 0.5)  # weights of predictor and record
RECORD_TOKENS = 12
AVERAGE = 0.8  # agreement of drafts with the target, by token
DOUBT = 0.05  # share of the predictor's probabilities that is spread over all drafts: none is ruled out
HORIZON = 12.0  # iterations that a load must pay off in
CANDIDATES = 8  # drafts considered for the places in memory


class Trust:
    """Believe in the predictor as far as its first choices agree with the target."""

    START = 0.95
    RIGHT, WRONG = 0.95, 0.8  # how often its first choice agrees with the target, by token, if it is right and if not
    RECOVERY = 0.3  # at each scheduling point
    SURE = 0.99

    def __init__(self) -> None:
        self.value = self.START

    def see(self, agrees: bool) -> None:
        """Weigh one token at which the predictor's first choice was seen."""
        right = self.value * (self.RIGHT if agrees else 1.0 - self.RIGHT)
        wrong = (1.0 - self.value) * (self.WRONG if agrees else 1.0 - self.WRONG)
        self.value = min(self.SURE, max(1.0 - self.SURE, right / (right + wrong)))

    def recover(self, changed: float) -> None:
        """Hear the predictor anew; ``changed`` is the total variation from what it said before, in [0, 1]."""
        moved = max(self.RECOVERY, changed / 2)
        self.value += moved * (self.START - self.value)


class BlendRanker:
    """Rank the best set of drafts to have in memory first, and within it first what is best once it is in memory.

    The best set has the largest sum of worths, less the prices of loads, among the sets of at most ``capacity`` drafts
    that fit in memory. A draft that would not come is in none: it would be waited for, and taken for a load.
    """

    def __init__(
        self,
        drafts: Sequence[str],
        predictor: Ranker,
        capacity: int,
        fits: Callable[[Sequence[str]], bool],
        prices: LoadPrices,
    ) -> None:
        self._predictor = predictor
        self._capacity = capacity
        self._fits = fits
        self._agreement = Agreement(drafts)
        self._prior = dict.fromkeys(drafts, 1.0 / len(drafts))
        self._trust = Trust()
        self._loads = LoadTimes()
        self._prices = prices
        self._costs = IterationCosts(drafts)
        self._interval = -1
        self._num_iterations = self._num_tokens = 0

    def rank(self, context: RankingContext) -> Ranking:
        if context.interval != self._interval:
            self._hear(self._predictor.rank(context), is_first=self._interval < 0)
            self._interval = context.interval
        probability = self._probabilities()
        here = self._worth(probability, context, load=0.0)
        chosen = self._best_set(self._worth(probability, context, load=self._loads.mean), context)
        self._prices.arrived(self._loads.see(chosen, context.resident, self._num_iterations))
        order = sorted(probability, key=lambda draft: (draft not in chosen, -here[draft]))
        depth = len(chosen) if chosen and self._prices.cost else None  # free loads fill what room there is
        return Ranking(tuple(order), tuple(probability[draft] for draft in order), depth)

    def observe(self, feedback: Feedback) -> None:
        self._num_iterations += 1
        self._num_tokens += feedback.emitted
        self._agreement.observe(feedback)
        self._costs.observe(feedback)
        self._prices.observe(feedback, beside_load=bool(self._loads.awaited))
        first = max(self._prior, key=lambda draft: self._prior[draft])
        oldest = feedback.start + feedback.emitted - RECORD_TOKENS
        for draft, position, agrees in sightings(feedback):
            if draft == first and position >= oldest:
                self._trust.see(agrees)

    def _hear(self, ranking: Ranking, is_first: bool) -> None:
        told = dict(zip(ranking.order, ranking.scores, strict=True))
        total = sum(told.values())
        prior = {draft: (1 - DOUBT) * told.get(draft, 0.0) / total + DOUBT / len(self._prior) for draft in self._prior}
        if not is_first:
            self._trust.recover(sum(abs(prior[draft] - self._prior[draft]) for draft in prior) / 2)
        self._prior = prior

    def _probabilities(self) -> dict[str, float]:
        trust = self._trust.value
        a, w = (trust * high + (1 - trust) * low for high, low in zip(TRUSTED, DISTRUSTED, strict=True))
        logits = {draft: a * math.log(p) + w * self._record(draft) for draft, p in self._prior.items()}
        highest = max(logits.values())
        powers = {draft: math.exp(logit - highest) for draft, logit in logits.items()}
        total = sum(powers.values())
        return {draft: power / total for draft, power in powers.items()}

    def _record(self, draft: str) -> float:
        return sum(agrees - AVERAGE for age, agrees in self._agreement.of(draft) if age < RECORD_TOKENS)

    def _worth(self, probability: Mapping[str, float], context: RankingContext, load: float) -> dict[str, float]:
        """Weigh drafts, if a load takes ``load`` iterations."""
        left = self._left(context)

        def kept(draft: str) -> float:
            lost = (draft not in context.resident) * load + (draft != context.active) * self._costs.switch
            return max(0.0, 1.0 - lost / left)

        return {draft: p / self._costs.relative(draft) * kept(draft) for draft, p in probability.items()}

    def _left(self, context: RankingContext) -> float:
        """Return the iterations that a load must pay off in."""
        per_iteration = self._num_tokens / self._num_iterations if self._num_iterations else 1.0
        left = HORIZON if context.tokens_left is None else min(HORIZON, context.tokens_left / per_iteration)
        return max(left, 1.0)

    def _best_set(self, worth: Mapping[str, float], context: RankingContext) -> tuple[str, ...]:
        present = {*context.resident, *self._loads.awaited}
        to_run, to_hold = self._prices.to_run(self._left(context)), self._prices.to_hold()

        def value(drafts: Sequence[str]) -> float:
            first = max(drafts, key=lambda draft: worth[draft])
            prices = (to_run if draft == first else to_hold for draft in drafts if draft not in present)
            return sum(worth[draft] for draft in drafts) - sum(prices)

        obtainable = [draft for draft in worth if draft in context.resident or draft not in context.unavailable]
        candidates = sorted(obtainable, key=lambda draft: -worth[draft])[:CANDIDATES]
        sizes = range(1, self._capacity + 1)
        sets = itertools.chain.from_iterable(itertools.combinations(candidates, size) for size in sizes)
        possible = (each for each in sets if self._fits(each))
        return max(possible, key=value, default=())
