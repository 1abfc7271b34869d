"""The gain against ridge regression: if wrong, drafts are changed for nothing, or not when it pays."""

import random

import numpy as np
import pytest

from memspec_actors.scheduling.calibration import Calibration


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_is_the_slope_of_a_ridge_regression_over_the_mean_speed(seed: int) -> None:
    rng = random.Random(seed)
    calibration = Calibration()
    pairs = []
    for _ in range(50):
        probability = rng.random()
        pairs.append((probability, 1.0 + 0.6 * probability + rng.gauss(0.0, 0.2)))
        calibration.see(*pairs[-1])
    x, y = np.array(pairs).T
    x, y = x - x.mean(), y / y.mean()
    # One more observation that weighs 1.5 and lies on the slope that is expected at first.
    expected = np.linalg.lstsq(np.append(x, 1.5**0.5)[:, None], np.append(y - y.mean(), 0.5 * 1.5**0.5), rcond=None)[
        0
    ].item()
    assert calibration.gain == pytest.approx(expected)


def test_nothing_is_learned_while_the_probability_stays_the_same() -> None:
    """On a text that goes well all the time the next turn would not be believed."""
    calibration = Calibration()
    assert calibration.gain == 0.5
    for speed in (1.0, 6.0, 3.0):
        calibration.see(0.9, speed)
    assert calibration.gain == 0.5


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_where_all_drafts_do_alike_nothing_is_gained_by_a_change(unit: float) -> None:
    """A text that no draft fits would have drafts loaded and changed at every turn of their luck."""
    calibration = Calibration()
    for number in range(200):
        calibration.see(0.2 if number % 2 else 0.8, (2.0 + number // 2 % 2) * unit)
    assert calibration.gain < 0.05
    for number in range(400):
        calibration.see(0.2 if number % 2 else 0.8, (3.0 if number % 2 else 1.0) * unit)
    assert calibration.gain == 0.0, "a loss is no reason to change either"
