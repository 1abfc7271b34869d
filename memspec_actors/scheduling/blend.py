"""MemSpec+: the predictor and what the drafts achieve, each as far as it is to be trusted, and the price of a switch.

The probability that a draft is the best one is a logistic model of two witnesses: the logarithm of the predictor's
probability p, and the draft's record e, the sum over the last tokens at which it was seen, running or reading along, of
(agreed with the target) - (what drafts agree on average). Their weights lie between two settings, according to the
trust t in the predictor:

    P(d) ~ exp(a log p(d) + w e(d)),      (a, w) = t (1.3, 0.1) + (1 - t) (0.05, 0.5)

with constants that suit replayed traces of the embedded models, their predictor as it is and with its probability of
one draft suppressed. The trust is a belief that the predictor is right: every late token at which its first choice was
seen is evidence (Bayes' rule), and at each scheduling point it recovers a little, the more so the more the predictor
has changed its mind. It never falls below LEAST: a first choice that fails may be the wrong one, or the text one that
no draft fits, and only the records of other drafts can tell which.

How much faster decoding is with the right draft, the gain g, is learned from all texts of which the predictor names the
same draft first (calibration.py). A draft's speed is then 1 - g (1 - P(d)) over the measured cost of an iteration with
it; a switch to it must bring back, within the iterations left, what its catching up costs. A draft that is not in
memory must also be worth its load (load_prices.py), in half of those iterations: so many are left on average when a
turn of the text is noticed.

Drafts in memory that are not at work are heard only where that could change the choice: their unread tokens, if they
agreed with all, would bring them to the top, and the gain that they promise exceeds what reading costs at most.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.calibration import Calibration, Calibrations
from memspec_actors.scheduling.evidence import Agreement, sightings
from memspec_actors.scheduling.iteration_costs import IterationCosts
from memspec_actors.scheduling.load_prices import LoadPrices, Prices
from memspec_actors.scheduling.load_times import LoadTimes
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext

__all__ = ["BlendRanker", "Trust"]

TRUSTED, DISTRUSTED = (1.3, 0.1), (0.05, 0.5)  # weights of predictor and record
RECORD_TOKENS = 12
AVERAGE = 0.75  # agreement of drafts with the target, by token
DOUBT = 0.05  # share of the predictor's probabilities that is spread over all drafts: none is ruled out
HORIZON = 12.0  # iterations for which a draft stays the right one
CANDIDATES = 8  # drafts considered for the places in memory


class Trust:
    """Believe in the predictor as far as its first choices agree with the target."""

    START = 0.95
    RIGHT, WRONG = 0.95, 0.8  # how often its first choice agrees with the target, by token, if it is right and if not
    RECOVERY = 0.1  # at each scheduling point
    SURE = 0.99
    LEAST = 0.25

    def __init__(self) -> None:
        self.value = self.START

    def see(self, agrees: bool) -> None:
        """Weigh one token at which the predictor's first choice was seen."""
        right = self.value * (self.RIGHT if agrees else 1.0 - self.RIGHT)
        wrong = (1.0 - self.value) * (self.WRONG if agrees else 1.0 - self.WRONG)
        self.value = min(self.SURE, max(self.LEAST, right / (right + wrong)))

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
        calibrations: Calibrations,
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
        self._calibrations = calibrations
        self._told: Mapping[str, float] = {}  # the probabilities by which the draft at work was chosen
        self._interval = -1
        self._num_iterations = self._num_tokens = 0

    def rank(self, context: RankingContext) -> Ranking:
        if context.interval != self._interval:
            self._hear(self._predictor.rank(context), is_first=self._interval < 0)
            self._interval = context.interval
        probability = self._told = self._probabilities()
        prices = self._prices.at(self._calibration.gain, self._left(context) / 2)
        chosen = self._best_set(probability, context, prices)
        self._prices.arrived(self._loads.see(chosen, context.resident, self._num_iterations))
        value = {draft: self._value(draft, probability, context) for draft in probability}
        order = sorted(value, key=lambda draft: (draft not in chosen, -value[draft]))
        depth = len(chosen) if chosen and prices.to_hold else None  # free loads fill what room there is
        scores = tuple(probability[draft] for draft in order)
        return Ranking(tuple(order), scores, depth, self._to_hear(probability, context))

    def observe(self, feedback: Feedback) -> None:
        self._num_iterations += 1
        self._num_tokens += feedback.emitted
        self._agreement.observe(feedback)
        if feedback.draft is not None and feedback.draft in self._told:
            self._calibration.see(self._told[feedback.draft], feedback.emitted / feedback.run_us)
        self._costs.observe(feedback)
        self._prices.observe(feedback, beside_load=bool(self._loads.awaited))
        oldest = feedback.start + feedback.emitted - RECORD_TOKENS
        for draft, position, agrees in sightings(feedback):
            if draft == self._first and position >= oldest:
                self._trust.see(agrees)

    def _hear(self, ranking: Ranking, is_first: bool) -> None:
        told = dict(zip(ranking.order, ranking.scores, strict=True))
        total = sum(told.values())
        prior = {draft: (1 - DOUBT) * told.get(draft, 0.0) / total + DOUBT / len(self._prior) for draft in self._prior}
        if not is_first:
            self._trust.recover(sum(abs(prior[draft] - self._prior[draft]) for draft in prior) / 2)
        self._prior = prior

    @property
    def _first(self) -> str:
        """The predictor's first choice."""
        return max(self._prior, key=lambda draft: self._prior[draft])

    @property
    def _calibration(self) -> Calibration:
        return self._calibrations[self._first]

    def _probabilities(self) -> dict[str, float]:
        a, w = self._weights()
        logits = {draft: a * math.log(p) + w * self._record(draft) for draft, p in self._prior.items()}
        highest = max(logits.values())
        powers = {draft: math.exp(logit - highest) for draft, logit in logits.items()}
        total = sum(powers.values())
        return {draft: power / total for draft, power in powers.items()}

    def _record(self, draft: str) -> float:
        return sum(agrees - AVERAGE for age, agrees in self._agreement.of(draft) if age < RECORD_TOKENS)

    def _weights(self) -> tuple[float, float]:
        trust = self._trust.value
        a, w = (trust * high + (1 - trust) * low for high, low in zip(TRUSTED, DISTRUSTED, strict=True))
        return a, w

    def _value(self, draft: str, probability: Mapping[str, float], context: RankingContext) -> float:
        """Return the speed that a draft in memory promises, less what switching to it costs."""
        speed = 1.0 - self._calibration.gain * (1.0 - probability[draft])
        switch = 0.0 if draft == context.active else self._costs.switch / self._left(context)
        return speed / self._costs.relative(draft) - switch

    def _left(self, context: RankingContext) -> float:
        """Return the iterations for which the right draft is expected to stay so."""
        per_iteration = self._num_tokens / self._num_iterations if self._num_iterations else 1.0
        left = HORIZON if context.tokens_left is None else min(HORIZON, context.tokens_left / per_iteration)
        return max(left, 1.0)

    def _best_set(self, probability: Mapping[str, float], context: RankingContext, prices: Prices) -> tuple[str, ...]:
        present = {*context.resident, *self._loads.awaited}
        in_time = max(0.0, 1.0 - self._loads.mean / self._left(context))  # the share of the time left after a load
        worth = {
            draft: p / self._costs.relative(draft) * (1.0 if draft in context.resident else in_time)
            for draft, p in probability.items()
        }

        def value(drafts: Sequence[str]) -> float:
            first = max(drafts, key=lambda draft: worth[draft])
            paid = (prices.to_run if draft == first else prices.to_hold for draft in drafts if draft not in present)
            return sum(worth[draft] for draft in drafts) - sum(paid)

        obtainable = [draft for draft in worth if draft in context.resident or draft not in context.unavailable]
        candidates = sorted(obtainable, key=lambda draft: -worth[draft])[:CANDIDATES]
        sizes = range(1, self._capacity + 1)
        sets = itertools.chain.from_iterable(itertools.combinations(candidates, size) for size in sizes)
        possible = (each for each in sets if self._fits(each))
        return max(possible, key=value, default=())

    def _to_hear(self, probability: Mapping[str, float], context: RankingContext) -> tuple[str, ...]:
        """Name the drafts in memory whose word could change the choice among them, and is worth reading for."""
        if len(context.resident) < 2:
            return ()
        best = max(probability[draft] for draft in context.resident)
        _, w = self._weights()
        gain = self._calibration.gain * self._left(context)

        def could_win(draft: str) -> bool:
            num_unread = min(self._agreement.num_unseen(draft), RECORD_TOKENS)
            return probability[draft] < best < probability[draft] * math.exp(w * (1.0 - AVERAGE) * num_unread)

        worth_it = (draft for draft in context.resident if probability[draft] * gain > self._costs.switch)
        return tuple(draft for draft in worth_it if could_win(draft))
