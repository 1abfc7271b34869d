"""Eight-bit maps compute the plain product of weights rounded to 255 levels an output."""

import pytest
import torch

from memspec_actors.models.kernels import int8
from memspec_actors.models.kernels.int8 import int8_product, quantise_int8


@pytest.mark.parametrize(("num_outputs", "num_inputs"), [(33, 48), (64, 128), (1, 16)])
@pytest.mark.parametrize("num_rows", [1, 5])
def test_the_map_is_the_plain_product_of_rounded_weights(num_outputs: int, num_inputs: int, num_rows: int) -> None:
    """Else an output would be scaled by another's scale, or lose more than the format costs."""
    random = torch.Generator().manual_seed(num_outputs)
    weight = torch.randn(num_outputs, num_inputs, generator=random)
    weight[0] = 0.0  # has no largest entry to divide by
    rows = torch.randn(num_rows, num_inputs, generator=random)
    codes, scales = quantise_int8(weight)
    rounded = [[float(scales[n]) * int(codes[n, k]) for k in range(num_inputs)] for n in range(num_outputs)]
    for line, exact in zip(rounded, weight.tolist(), strict=True):
        step = max(abs(value) for value in exact) / 127
        assert all(abs(a - b) <= step for a, b in zip(line, exact, strict=True))
    expected = torch.tensor(
        [[sum(x * w for x, w in zip(row, line, strict=True)) for line in rounded] for row in rows.tolist()]
    )
    got = int8_product(rows, codes, scales)
    assert got.dtype == torch.bfloat16
    assert (got.float() - expected).abs().max() <= 0.01 * expected.abs().max() + 1e-6


def test_a_kernel_that_computes_something_else_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a torch whose private kernel changed would silently run other models."""
    assert int8.int8_works()
    int8.int8_works.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(int8, "int8_product", lambda rows, *weight: int8_product(rows.flip(-1), *weight))
        assert not int8.int8_works()
    int8.int8_works.cache_clear()
    assert int8.int8_works()
