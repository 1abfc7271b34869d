"""Entropy and Jensen-Shannon distance against scipy; if wrong, AdaSD stops and accepts by numbers that mean nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy

from memspec_actors.speculation.divergence import entropy, js_distances


def distributions(seed: int, scale: float, width: int = 50, rows: int = 4) -> torch.Tensor:
    logits = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * scale
    logits[:, : seed % 7] = float("-inf")  # filtered tokens have probability 0
    return logits.softmax(-1)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 5.0, 30.0]))
def test_distances_and_entropies_are_scipys(seed: int, other: int, scale: float) -> None:
    p, q = distributions(seed, scale), distributions(other, scale)
    expected = jensenshannon(p.double().numpy().T, q.double().numpy().T, base=2)
    # scipy itself may be nan or off by sqrt(rounding) where the divergence is 0
    assert js_distances(p, q) == pytest.approx(np.nan_to_num(expected), abs=1e-6 if seed != other else 1e-3)
    for row in p:
        assert entropy(row) == pytest.approx(float(scipy_entropy(row.numpy())), abs=1e-5)


def test_equal_distributions_are_at_0_and_disjoint_ones_at_1() -> None:
    """Complete agreement or disagreement would enter the densities, which leave both out."""
    p = distributions(8, 3.0)
    disjoint = torch.cat([p, torch.zeros_like(p)], -1), torch.cat([torch.zeros_like(p), p], -1)
    assert js_distances(p, p) == [0.0] * 4
    assert js_distances(p, torch.nextafter(p, torch.ones(()))) == [0.0] * 4
    assert js_distances(*disjoint) == [1.0] * 4


def test_rows_are_normalised_over_the_ids_that_are_given() -> None:
    """On a common support that leaves mass out, distances would come out too small."""
    p, q = distributions(1, 2.0), distributions(2, 2.0)
    expected = jensenshannon(p[:, :30].double().numpy().T, q[:, :30].double().numpy().T, base=2)
    assert js_distances(p[:, :30], q[:, :30]) == pytest.approx(expected, abs=1e-6)
