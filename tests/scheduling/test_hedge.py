"""Hedge against a plain loop over the whole history of what is known of every draft."""

import random

import numpy as np
import pytest

from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.scheduling.evidence import Agreement
from memspec_actors.scheduling.hedge import HedgeRanker
from memspec_actors.scheduling.rankers import RankingContext

DRAFTS = ("general", "code", "math")
RATES = (0.5, 0.9, 0.2)
CONTEXT = RankingContext(prompt_ids=(1,))
K = 5


def an_iteration(
    start: int, draft: str | None, drafted: int, accepted: int, emitted: int, *shadows: Shadow
) -> Feedback:
    return Feedback(
        iteration=0,
        start=start,
        draft=draft,
        drafted=drafted,
        accepted=accepted,
        emitted=emitted,
        cost_us=1.0,
        shadows=shadows,
    )


def random_history(rng: random.Random, length: int, resident: int) -> tuple[list[Feedback], dict[str, dict[int, int]]]:
    """Decode a text with drafts that are each right at random tokens; ``resident`` of them read along now and then.

    Gives the feedback, and what of each draft has become known, token by token.
    """
    right = {draft: [rng.random() < rate for _ in range(length)] for draft, rate in zip(DRAFTS, RATES, strict=True)}
    known: dict[str, dict[int, int]] = {draft: {} for draft in DRAFTS}
    history: list[Feedback] = []
    read_up_to: dict[str, int] = dict.fromkeys(DRAFTS, 1)
    start = 1
    while start + K + 1 < length:
        draft = rng.choice([*DRAFTS[:resident], None])
        accepted = 0
        while draft is not None and accepted < K and right[draft][start + accepted]:
            accepted += 1
        shadows = []
        for other in DRAFTS[:resident]:
            if other != draft and rng.random() < 0.3:
                first = read_up_to[other]
                shadows.append(Shadow(other, first, tuple(right[other][first:start])))
                known[other] |= {t: right[other][t] for t in range(first, start)}
                read_up_to[other] = start
        if draft is not None:
            known[draft] |= {t: right[draft][t] for t in range(start, start + min(accepted + 1, K))}
            read_up_to[draft] = start + accepted + 1
        history.append(an_iteration(start, draft, K if draft else 0, accepted, accepted + 1, *shadows))
        start += accepted + 1
    return history, known


@pytest.mark.parametrize("seed", range(6))
def test_hedge_is_the_formula_over_all_that_is_known(seed: int) -> None:
    """A draft that only read along would be judged as if it had run, or not at all."""
    rng = random.Random(seed)
    discount = rng.choice([0.8, 0.95, 1.0])
    history, known = random_history(rng, 120, resident=2 + seed % 2)
    ranker = HedgeRanker(DRAFTS, discount)
    for each in history:
        ranker.observe(each)
    length = history[-1].start + history[-1].emitted
    weights = {d: np.array([discount ** (length - 1 - t) for t in known[d]]) for d in DRAFTS}
    values = {d: np.array(list(known[d].values()), dtype=float) for d in DRAFTS}
    average = sum((weights[d] * values[d]).sum() for d in DRAFTS) / sum(weights[d].sum() for d in DRAFTS)
    powers = np.exp([(weights[d] * (values[d] - average)).sum() for d in DRAFTS])
    ranking = ranker.rank(CONTEXT)
    scores = dict(zip(ranking.order, ranking.scores, strict=True))
    assert [scores[d] for d in DRAFTS] == pytest.approx(powers / powers.sum())
    assert list(ranking.scores) == sorted(ranking.scores, reverse=True)


def test_a_draft_that_nobody_has_seen_comes_before_one_that_does_badly() -> None:
    """With a bad draft in the second place the others would never get a chance to read along."""
    ranker = HedgeRanker(DRAFTS, 0.95)
    assert ranker.rank(CONTEXT).order == DRAFTS
    ranker.observe(an_iteration(1, "general", K, K, K + 1, Shadow("code", 1, (False,) * 6)))
    assert ranker.rank(CONTEXT).order == ("general", "math", "code")


@pytest.mark.parametrize(
    ("drafted", "accepted", "emitted", "told"),
    [
        (5, 0, 1, [False]),
        (5, 2, 3, [True, True, False]),
        (5, 5, 6, [True] * 5),
        (5, 2, 2, [True, True]),  # the text ended with an accepted token
        (0, 0, 1, []),
    ],
)
def test_an_iteration_tells_of_the_tokens_up_to_the_first_wrong_one(
    drafted: int, accepted: int, emitted: int, told: list[bool]
) -> None:
    """Tokens that the target never compared would count for or against the draft."""
    agreement = Agreement(DRAFTS)
    agreement.observe(an_iteration(7, "code", drafted, accepted, emitted))
    assert list(agreement.of("code")) == [(emitted - 1 - index, agrees) for index, agrees in enumerate(told)]
    assert list(agreement.of("math")) == []
