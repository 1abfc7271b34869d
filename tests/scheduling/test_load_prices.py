"""Prices against plain sums: if wrong, drafts are loaded that are never needed, or not loaded that are."""

import random

import pytest

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.load_prices import LoadPrices

EMITTED = 4


def iteration(draft: str | None, drafted: int, cost_us: float, catch_up_us: float = 0.0) -> Feedback:
    return Feedback(
        iteration=0,
        start=1,
        draft=draft,
        drafted=drafted,
        accepted=0,
        emitted=EMITTED if draft else 1,
        cost_us=cost_us + catch_up_us,
        catch_up_us=catch_up_us,
    )


def test_loads_are_free_until_they_were_seen_to_cost_something() -> None:
    prices = LoadPrices()
    assert (prices.cost, prices.to_run(5.0), prices.to_hold()) == (0.0, 0.0, 0.0)
    prices.observe(iteration("a", 5, 10.0), beside_load=True)
    prices.arrived(1)
    assert prices.cost == 0.0, "there is no quiet iteration to compare it with"
    for _ in range(3):
        prices.observe(iteration("a", 5, 20.0), beside_load=False)
    assert prices.cost == 0.0, "beside a load all went faster"


@pytest.mark.parametrize("seed", range(4))
def test_a_load_costs_what_iterations_beside_it_take_longer(seed: int) -> None:
    """Long drafts, slow drafts and catching up would be taken for the cost of loads."""
    rng = random.Random(seed)
    prices, slower, length = LoadPrices(), 0.25, 3
    usual_us = {("a", 5): 10.0, ("a", 2): 7.0, ("b", 5): 30.0}
    num_loads = 200
    for number in range(num_loads * length * 2):
        kind = rng.choice(list(usual_us))
        beside = number % 2 == 0
        took_us = usual_us[kind] * (1 + slower * beside)
        prices.observe(iteration(*kind, took_us, catch_up_us=50.0 * beside), beside_load=beside)
    prices.arrived(num_loads)
    assert prices.cost == pytest.approx(slower * length, rel=0.01)
    gain = 1 - 1 / EMITTED
    assert prices.to_run(8.0) == pytest.approx(prices.cost / (gain * 8.0))
    assert prices.to_hold() == pytest.approx(prices.cost / (gain * length + prices.cost))


def test_iterations_of_the_target_alone_are_no_measure_of_what_drafts_bring() -> None:
    """Before the first draft is there each gives one token: loads would seem to bring nothing."""
    prices = LoadPrices()
    for _ in range(50):
        prices.observe(iteration(None, 0, 5.0), beside_load=False)
        prices.observe(iteration("a", 5, 10.0), beside_load=False)
        prices.observe(iteration("a", 5, 15.0), beside_load=True)
    prices.arrived(25)
    assert prices.to_run(8.0) == pytest.approx(prices.cost / ((1 - 1 / EMITTED) * 8.0))
