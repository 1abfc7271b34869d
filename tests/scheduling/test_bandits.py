"""Bandits against plain loops over the whole history."""

import math
import random

import numpy as np
import pytest

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.bandits import Exp3Ranker, UcbRanker
from memspec_actors.scheduling.rankers import RankingContext

DRAFTS = ("general", "code", "math", "law")
CONTEXT = RankingContext(prompt_ids=(1,))


def feedback(iteration: int, draft: str | None, emitted: int, run_us: float = 1.0) -> Feedback:
    return Feedback(
        iteration=iteration,
        start=1,
        draft=draft,
        drafted=5,
        accepted=emitted - 1,
        emitted=emitted,
        cost_us=run_us + 3.0,
        catch_up_us=3.0,
    )


@pytest.mark.parametrize("exploration", [0.0, 0.5, 2.0])
def test_ucb_is_the_formula_over_the_whole_history(exploration: float) -> None:
    """A bonus over the sum of all pulls, the same for every arm, would never explore (a fault of BanditSpec's code)."""
    rng = random.Random(3)
    ranker = UcbRanker(DRAFTS, exploration)
    history: list[tuple[str, int, float]] = []
    for iteration in range(200):
        untried = [draft for draft in DRAFTS if all(ran != draft for ran, _, _ in history)]
        index = {}
        for draft in DRAFTS:
            pulls = np.array([(emitted, us) for ran, emitted, us in history if ran == draft])
            if len(pulls):
                tokens, us = pulls.sum(axis=0)
                mean = tokens / us * np.mean([each for _, _, each in history])
                index[draft] = mean + exploration * math.sqrt(math.log(len(history)) / len(pulls))
        ranking = ranker.rank(CONTEXT)
        assert list(ranking.order[: len(untried)]) == untried, "each draft is explored once first"
        scores = dict(zip(ranking.order, ranking.scores, strict=True))
        assert [scores[draft] for draft in index] == pytest.approx(list(index.values()))
        assert list(ranking.scores) == sorted(ranking.scores, reverse=True)
        draft = ranking.order[0] if rng.random() < 0.7 else rng.choice(DRAFTS)  # a fallback may run instead
        emitted, run_us = rng.randint(1, 6), rng.uniform(2.0, 6.0)
        history.append((draft, emitted, run_us))
        ranker.observe(feedback(iteration, draft, emitted, run_us))


def test_a_draft_whose_long_iterations_give_more_tokens_and_take_longer_still_is_the_worse_one() -> None:
    """Under rules that adapt the length, tokens per iteration tell nothing of speed."""
    ranker = UcbRanker(("long", "short"), exploration=0.0)
    ranker.observe(feedback(0, "long", 9, run_us=30.0))
    ranker.observe(feedback(1, "short", 4, run_us=10.0))
    assert ranker.rank(CONTEXT).order == ("short", "long")


def test_a_plain_target_step_pulls_no_arm() -> None:
    """The time before the first draft is up would count against the drafts."""
    ranker = UcbRanker(DRAFTS, 2.0)
    before = ranker.rank(CONTEXT)
    ranker.observe(feedback(0, None, 1))
    assert ranker.rank(CONTEXT) == before


@pytest.mark.parametrize("mixing", [0.1, 1.0])
def test_exp3_is_the_formula_over_the_whole_history(mixing: float) -> None:
    """Weights that grew without the importance correction would stay with whatever was drawn first."""
    rng = random.Random(4)
    ranker = Exp3Ranker(DRAFTS, mixing, seed=1)
    weights = np.ones(len(DRAFTS))
    drawn_first, highest = [], 0.0
    for iteration in range(150):
        ranking = ranker.rank(CONTEXT)
        probabilities = (1 - mixing) * weights / weights.sum() + mixing / len(DRAFTS)
        told = dict(zip(ranking.order, ranking.scores, strict=True))
        assert [told[draft] for draft in DRAFTS] == pytest.approx(probabilities)
        assert list(ranking.scores[1:]) == sorted(ranking.scores[1:], reverse=True)
        drawn = DRAFTS.index(ranking.order[0])
        drawn_first.append(drawn)
        ran, emitted = (drawn if rng.random() < 0.6 else rng.randrange(len(DRAFTS))), rng.randint(1, 6)
        run_us = rng.uniform(2.0, 6.0)
        highest = max(highest, emitted / run_us)
        if ran == drawn:
            weights[drawn] *= math.exp(mixing / len(DRAFTS) * (emitted / run_us / highest) / probabilities[drawn])
        ranker.observe(feedback(iteration, DRAFTS[ran], emitted, run_us))
    assert set(drawn_first) == set(range(len(DRAFTS))), "no draft is ever ruled out"


def test_exp3_draws_the_same_drafts_for_the_same_seed() -> None:
    """Behaviour 11: a run could not be repeated."""
    draws = [[Exp3Ranker(DRAFTS, 1.0, seed).rank(CONTEXT).order[0] for seed in range(40)] for _ in range(2)]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == len(DRAFTS)
