"""Prices against plain sums: if wrong, drafts are loaded that are never needed, or not loaded that are."""

import random

import pytest

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.load_prices import LoadPrices


def iteration(draft: str | None, drafted: int, cost_us: float, catch_up_us: float = 0.0) -> Feedback:
    return Feedback(
        iteration=0,
        start=1,
        draft=draft,
        drafted=drafted,
        accepted=0,
        emitted=1,
        cost_us=cost_us + catch_up_us,
        catch_up_us=catch_up_us,
    )


def test_loads_are_free_until_they_were_seen_to_cost_something() -> None:
    prices = LoadPrices()
    assert prices.to_hold == 0.0
    prices.observe(iteration("a", 5, 10.0), beside_load=True)
    assert prices.to_hold == 0.0, "there is no quiet iteration to compare it with"
    for _ in range(3):
        prices.observe(iteration("a", 5, 20.0), beside_load=False)
    assert prices.to_hold == 0.0, "beside a load all went faster"


@pytest.mark.parametrize("seed", range(4))
def test_a_load_costs_what_iterations_beside_it_take_longer(seed: int) -> None:
    """Long drafts, slow drafts and catching up would be taken for the cost of loads."""
    rng = random.Random(seed)
    prices, slower = LoadPrices(), 0.25
    usual_us = {("a", 5): 10.0, ("a", 2): 7.0, ("b", 5): 30.0}
    for number in range(1200):
        kind = rng.choice(list(usual_us))
        beside = number % 2 == 0
        took_us = usual_us[kind] * (1 + slower * beside)
        prices.observe(iteration(*kind, took_us, catch_up_us=50.0 * beside), beside_load=beside)
    assert prices.to_hold == pytest.approx(slower / (0.5 + slower), rel=0.01)


def test_one_slow_iteration_beside_a_load_is_hardly_believed() -> None:
    """A hiccup beside the first load of a process would keep second drafts out of memory for good."""
    prices = LoadPrices()
    prices.observe(iteration("a", 5, 10.0), beside_load=False)
    prices.observe(iteration("a", 5, 20.0), beside_load=True)
    assert prices.to_hold == pytest.approx(0.2 / 0.7), "one iteration beside four that are believed to be as quick"
