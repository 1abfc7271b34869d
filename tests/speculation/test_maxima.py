"""If these fail, greedy text is not the target's."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.speculation.maxima import maxima

FEW = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf, math.nan])  # equals, too


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@given(rows=st.lists(st.lists(FEW, min_size=4, max_size=4), max_size=5))
def test_the_largest_of_each_row_is_found_and_the_first_of_equals(dtype: torch.dtype, rows: list[list[float]]) -> None:
    logits = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    ids, best = maxima(logits)
    for row, where, value in zip(rows, ids, best, strict=True):
        largest = math.nan if any(map(math.isnan, row)) else max(row)
        first = next(i for i, each in enumerate(row) if each == largest or (math.isnan(each) and math.isnan(largest)))
        assert where == first
        assert value == largest or (math.isnan(value) and math.isnan(largest))


@torch.inference_mode()
def test_rows_of_a_wider_table_are_taken_as_they_are() -> None:
    logits = torch.randn(5, 90, generator=torch.Generator().manual_seed(0))[:, :70]
    assert maxima(logits)[0] == logits.argmax(-1).tolist()
