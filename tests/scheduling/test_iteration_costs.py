"""Costs against a plain loop: with wrong ones memspec+ would prefer slow drafts, or switch where it does not pay."""

import random
from statistics import fmean

import pytest

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.iteration_costs import IterationCosts

DRAFTS = ("small", "large")


def iteration(draft: str | None, cost_us: float, catch_up_us: float = 0.0, drafted: int = 5) -> Feedback:
    return Feedback(
        iteration=0,
        start=1,
        draft=draft,
        drafted=drafted if draft else 0,
        accepted=0,
        emitted=1,
        cost_us=cost_us + catch_up_us,
        catch_up_us=catch_up_us,
    )


@pytest.mark.parametrize("seed", range(4))
def test_costs_are_means_that_begin_at_the_mean_of_all(seed: int) -> None:
    rng = random.Random(seed)
    costs = IterationCosts(DRAFTS)
    seen: dict[str, list[float]] = {draft: [] for draft in DRAFTS}
    for _ in range(30):
        draft = rng.choice([*DRAFTS, None])
        us = rng.uniform(5.0, 15.0) * (2 if draft == "large" else 1)
        costs.observe(iteration(draft, us, rng.choice([0.0, 3.0])))
        if draft:
            seen[draft].append(us)
    mean = fmean([*seen["small"], *seen["large"]])
    for draft, times in seen.items():
        assert costs.relative(draft) == pytest.approx(fmean([*times, *[mean] * 4]) / mean)
    assert costs.relative("large") > 1.0 > costs.relative("small")


def test_nothing_costs_more_than_another_before_anything_ran() -> None:
    costs = IterationCosts(DRAFTS)
    costs.observe(iteration(None, 50.0))
    assert (costs.relative("small"), costs.relative("large"), costs.switch) == (1.0, 1.0, 0.0)


def test_only_the_first_iteration_after_a_switch_catches_up() -> None:
    costs = IterationCosts(DRAFTS)
    for draft, catch_up_us in (("small", 4.0), ("small", 0.0), ("large", 8.0), ("large", 0.0)):
        costs.observe(iteration(draft, 10.0, catch_up_us))
    assert costs.switch == pytest.approx((4.0 + 8.0) / 2 / 10.0)


def test_a_draft_that_drafts_less_is_not_cheaper_for_that() -> None:
    """Under rules that stop where a draft is unsure, the wrong drafts would seem the cheap ones, and be preferred."""
    costs = IterationCosts(DRAFTS)
    for number in range(40):
        drafted = 12 if number % 4 else 2
        for draft, us_per_token in (("small", 1.0), ("large", 2.0)):
            length = drafted if draft == "large" else 14 - drafted
            costs.observe(iteration(draft, 10.0 + us_per_token * length, drafted=length))
    assert costs.relative("small") < 1.0 < costs.relative("large")
    same = IterationCosts(DRAFTS)
    for drafted, num_small, num_large in ((2, 30, 10), (12, 10, 30)):
        for draft, num in (("small", num_small), ("large", num_large)):
            for _ in range(num):
                same.observe(iteration(draft, 10.0 + drafted, drafted=drafted))
    assert same.relative("small") == pytest.approx(1.0)
    assert same.relative("large") == pytest.approx(1.0)
