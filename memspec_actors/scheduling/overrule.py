"""MemSpec+: the predictor is presumed right, and overruled where the drafts' own record says otherwise.

As long as nothing speaks against the predictor's first choice, its ranking stands as it is; only drafts that are not
worth their load (load_prices.py) are not loaded. Evidence are the tokens since it named that choice, at most the last
WINDOW_TOKENS: those at which the choice was seen, running or reading along, to agree with the target, and those at
which it failed and no other draft was seen to fail too (a token that no draft gets right says nothing of the choice):

    doubt = log((1 - p) / p) + sum of log(P(agrees | wrong) / P(agrees | right)), or of log(P(fails | wrong) / P(fails |
    right))

with the predictor's probability p of its first choice. Where that exceeds 0, the choice is wrong rather than right: the
drafts in memory that could do better are asked to read along, and the one to run is that with the largest

    log p(d) + WEIGHT * sum over the tokens at which d was seen of (d agreed - the first choice did) - HASTE

where AVERAGE stands for a first choice that was not seen, and HASTE is 0 for the first choice and the draft at work:
where no draft fits, one after the other has luck for some tokens, and to follow it costs more than it brings. So no
draft runs on suspicion: one of which nothing was seen comes after the first choice, and the first choice stays in
memory beside the draft that overrules it. Where the predictor is at a loss, drafts that it does not name are tried, too
(search.py). The constants suit replayed traces of the embedded models, with their predictor and with ones trained
without a domain.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.evidence import Agreement
from memspec_actors.scheduling.load_prices import LoadPrices
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.scheduling.search import GUESS, Discoveries, Search
from memspec_actors.scheduling.working_set import working_set

__all__ = ["OverrulingRanker"]

IF_RIGHT, IF_WRONG = 0.95, 0.8  # how often the first choice agrees with the target, by token
AGREES = math.log(IF_WRONG / IF_RIGHT)
FAILS = math.log((1.0 - IF_WRONG) / (1.0 - IF_RIGHT))
AVERAGE = 0.75  # how often drafts agree, by token
WINDOW_TOKENS = 32
WEIGHT = 0.7
HASTE = 2.8  # nats: four tokens' lead
SPREAD = 0.05  # share of the predictor's probabilities that is spread over all drafts: none is ruled out
FEWEST_UNREAD = 8  # tokens for which a draft is asked to read along

Seen = Mapping[int, bool]  # whether a draft agreed, by position in the text


class OverrulingRanker:
    """Rank as the predictor does, but for a draft that overrules its first choice.

    ``capacity`` drafts that ``fits`` admits can be in memory together; ``prices`` are those of their loads, and
    ``discoveries`` what came of looking for better drafts before.
    """

    def __init__(
        self,
        drafts: Sequence[str],
        predictor: Ranker,
        capacity: int,
        fits: Callable[[Sequence[str]], bool],
        prices: LoadPrices,
        discoveries: Discoveries,
    ) -> None:
        self._drafts = tuple(drafts)
        self._predictor = predictor
        self._capacity = capacity
        self._fits = fits
        self._prices = prices
        self._search = Search(discoveries)
        self._agreement = Agreement(drafts)
        self._awaited: set[str] = set()  # drafts that are being loaded on this ranker's account
        self._said = Ranking((), ())  # by the predictor, at the beginning of the interval
        self._interval = -1
        self._named_at = 0  # tokens of the text when the predictor changed its first choice

    def rank(self, context: RankingContext) -> Ranking:
        if context.interval != self._interval:
            self._interval = context.interval
            self._ask(context)
        probability = self._probabilities()
        order: tuple[str, ...] = self._said.order
        to_hear: tuple[str, ...] = ()
        sure, window = probability[order[0]], self._agreement.length - WINDOW_TOKENS
        prior = math.log((1.0 - sure) / sure) if sure < 1.0 else -math.inf  # the only draft is always right
        is_guess = sure <= GUESS
        since = window if is_guess and self._search.found else max(self._named_at, window)
        seen = self._seen(since)
        if prior + _doubt(order[0], seen) > 0.0:
            order, to_hear = self._overrule(probability, seen, since, context)
        tried: str | None = None
        if is_guess:
            order, tried = self._look_further(order, prior, self._seen(window), context)
        depth = self._wanted(order, tried, probability, context)
        scores = dict(zip(self._said.order, self._said.scores, strict=True))
        return Ranking(order, tuple(scores.get(draft, 0.0) for draft in order), depth, to_hear)

    def observe(self, feedback: Feedback) -> None:
        self._agreement.observe(feedback)
        self._prices.observe(feedback, beside_load=bool(self._awaited))

    def _ask(self, context: RankingContext) -> None:
        before, self._said = self._said, self._predictor.rank(context)
        if self._said.order[:1] != before.order[:1]:
            self._named_at = context.num_generated

    def _probabilities(self) -> dict[str, float]:
        scores = dict(zip(self._said.order, self._said.scores, strict=True))
        total = sum(scores.values())
        return {d: (1.0 - SPREAD) * scores.get(d, 0.0) / total + SPREAD / len(self._drafts) for d in self._drafts}

    def _seen(self, since: int) -> dict[str, Seen]:
        return {draft: self._agreement.since(draft, since) for draft in self._drafts}

    def _overrule(
        self, probability: Mapping[str, float], seen: Mapping[str, Seen], since: int, context: RankingContext
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the order of drafts by what was seen, and those whose word could change it."""
        first = self._said.order[0]
        haste = {draft: 0.0 if draft in (first, context.active) else HASTE for draft in probability}
        worth = {d: math.log(p) + WEIGHT * _lead(seen[d], seen[first]) - haste[d] for d, p in probability.items()}
        best = max(worth, key=lambda draft: worth[draft])

        def could_win(draft: str) -> bool:
            unread = [p for p in range(since, self._agreement.length) if p not in seen[draft]]
            most = worth[draft] + WEIGHT * sum(seen[best].get(p) is False for p in unread)
            return len(unread) >= FEWEST_UNREAD and most > worth[best]

        idle = [draft for draft in context.resident if draft not in (best, context.active)]
        order = (best, *(draft for draft in self._said.order if draft != best))
        return order, tuple(draft for draft in idle if could_win(draft))

    def _look_further(
        self, order: tuple[str, ...], prior: float, seen: Mapping[str, Seen], context: RankingContext
    ) -> tuple[tuple[str, ...], str | None]:
        """Put a draft that the predictor does not name second, if one is tried; return the order and that draft."""
        doubts = {draft: _failing(of) for draft, of in seen.items() if len(of) >= FEWEST_UNREAD}
        no_room = [draft for draft in order[1:] if draft not in self._fitting((order[0], draft))]
        self._search.see(doubts, prior, order, {*context.resident, *context.unavailable, *no_room})
        if (tried := self._search.trying) is None:
            return order, None
        return (order[0], tried, *(draft for draft in order[1:] if draft != tried)), tried

    def _wanted(
        self, order: Sequence[str], tried: str | None, probability: Mapping[str, float], context: RankingContext
    ) -> int | None:
        """Note which drafts are wanted in memory; return how many, or None for as many as fit.

        A draft that is tried is loaded whatever that costs.
        """
        wanted = self._fitting([draft for draft in order if draft not in context.unavailable])
        held, price = {*self._awaited, *context.resident, tried}, self._prices.to_hold
        unpaid = (n for n, draft in enumerate(wanted) if n and draft not in held and probability[draft] < price)
        depth = next(unpaid, None)
        self._awaited = set(wanted[:depth]).difference(context.resident)
        return depth

    def _fitting(self, order: Sequence[str]) -> tuple[str, ...]:
        return working_set(order, self._capacity, self._fits)


def _doubt(first: str, seen: Mapping[str, Seen]) -> float:
    """Return by how much what was seen speaks against the predictor's first choice, in nats."""
    others = [of for draft, of in seen.items() if draft != first]
    alone = (p for p, agrees in seen[first].items() if not agrees and all(other.get(p, True) for other in others))
    return AGREES * sum(seen[first].values()) + FAILS * sum(1 for _ in alone)


def _failing(of: Seen) -> float:
    """Return by how much what was seen of a draft speaks against it, in nats."""
    num_agreed = sum(of.values())
    return AGREES * num_agreed + FAILS * (len(of) - num_agreed)


def _lead(draft: Seen, first: Seen) -> float:
    """Return at how many tokens more than the first choice a draft agreed, of those at which it was seen."""
    return sum(agrees - first.get(position, AVERAGE) for position, agrees in draft.items())
