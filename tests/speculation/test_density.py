"""The density estimate against scipy's; if wrong, AdaSD accepts other tokens than its paper says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from memspec_actors.speculation.density import MAX_POINTS, DensityEstimator
from memspec_actors.speculation.odds import OddsEstimator

GRID = np.linspace(0.0, 1.0, 101)


def estimator_of(samples: "np.typing.NDArray[np.float64] | list[float]") -> DensityEstimator:
    estimator = DensityEstimator()
    for sample in samples:
        estimator.add(float(sample))
    return estimator


@settings(max_examples=40)
@given(st.lists(st.floats(0.001, 0.999), min_size=2, max_size=80, unique=True), st.data())
def test_density_is_scipys(samples: list[float], data: st.DataObject) -> None:
    num_extra = data.draw(st.integers(0, len(samples) - 2))
    cut = len(samples) - num_extra
    if np.std(samples) < 1e-9:
        return
    density = estimator_of(samples[:cut]).snapshot()
    expected = gaussian_kde(samples)(GRID)
    assert [density(at, samples[cut:]) for at in GRID] == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("num", [MAX_POINTS - 1, MAX_POINTS + 1, 3 * MAX_POINTS])
@pytest.mark.parametrize("shape", ["two humps", "near zero"])
def test_density_of_many_samples_stays_within_1_percent_of_scipys(num: int, shape: str) -> None:
    """Gathering points on a grid would bend the curve."""
    rng = np.random.default_rng(num)
    low = rng.beta(1.0, 40.0, num)
    samples = low if shape == "near zero" else np.where(rng.random(num) < 0.6, low, rng.beta(5.0, 3.0, num))
    density = estimator_of(samples).snapshot()
    expected = gaussian_kde(samples)(GRID)
    relevant = expected > 1e-6 * expected.max()  # of nothing, 1 % is nothing
    got = np.array([density(at) for at in GRID])
    assert got[relevant] == pytest.approx(expected[relevant], rel=0.01)
    assert got[~relevant] == pytest.approx(expected[~relevant], abs=1e-6 * expected.max())


@pytest.mark.parametrize("samples", [[], [0.4], [0.4, 0.4, 0.4]])
def test_too_few_samples_or_no_variance_leave_the_density_undefined(samples: list[float]) -> None:
    """A division by zero, or a spike, would decide about tokens."""
    assert estimator_of(samples).snapshot()(0.4) is None


def test_a_snapshot_does_not_change_when_samples_are_added() -> None:
    """The decoder would judge by statistics that it was not given."""
    estimator = estimator_of(np.linspace(0.1, 0.9, 100))
    snapshot = estimator.snapshot()
    before = snapshot(0.33)
    for _ in range(2 * MAX_POINTS):
        estimator.add(0.33)
    assert snapshot(0.33) == before


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(0, 4))
def test_odds_are_bayes_rule_over_scipys_densities(seed: int, num_new: int) -> None:
    rng = np.random.default_rng(seed)
    accepted, rejected = rng.beta(1, 4, 30), rng.beta(4, 2, 9)
    estimator = OddsEstimator()
    for distance in (0.0, *accepted[: 30 - num_new], 1.0):
        estimator.add(float(distance), accepted=True)
    for distance in (1.0, *rejected):
        estimator.add(float(distance), accepted=False)
    odds = estimator.snapshot()
    for at in (0.05, 0.4, 0.8):
        for_a = gaussian_kde(accepted)(at)[0] * 30 / 39
        for_r = gaussian_kde(rejected)(at)[0] * 9 / 39
        expected = for_a / (for_a + for_r)
        assert odds.probability(at, accepted[30 - num_new :].tolist()) == pytest.approx(expected, rel=1e-6)
    assert (odds.num_accepted, odds.num_rejected) == (30 - num_new, 9)
