"""Eight-bit weights, one scale for each output, on torch's CPU kernel; rows are bfloat16, as it is slow with others."""

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["int8_product", "int8_works", "quantise_int8"]

LARGEST_CODE = 127
TOLERANCE = 1e-2  # of the largest result; bfloat16 alone takes 3e-3


def int8_product(rows: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """Map rows (T, in) x to x @ weight.T, (T, out) bfloat16; ``codes`` (out, in) int8, ``scales`` (out,) bfloat16.

    TorchScript as well as Python.
    """
    product: Tensor = torch.ops.aten._weight_int8pack_mm(rows.to(torch.bfloat16).contiguous(), codes, scales)
    return product


def quantise_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round weights (out, in) to 255 levels, symmetric for each output; returns int8 codes and bfloat16 scales."""
    wide = weight.float()
    scales = (wide.abs().amax(1) / LARGEST_CODE).clamp(min=torch.finfo(torch.bfloat16).tiny).to(torch.bfloat16)
    codes = (wide / scales.float()[:, None]).round_().clamp_(-LARGEST_CODE, LARGEST_CODE)
    return codes.to(torch.int8), scales


@lru_cache(maxsize=1)
def int8_works() -> bool:
    """Tell whether the kernel exists and agrees with a plain product, for one row and several."""
    try:
        return all(_agrees(num_rows) for num_rows in (1, 5))
    except (AttributeError, RuntimeError, TypeError):
        return False


def _agrees(num_rows: int) -> bool:
    random = torch.Generator().manual_seed(num_rows)
    weight = torch.randn(40, 80, generator=random)
    rows = torch.randn(num_rows, 80, generator=random)
    codes, scales = quantise_int8(weight)
    expected = rows @ (codes.float() * scales.float()[:, None]).t()
    got = int8_product(rows, codes, scales).float()
    return bool((got - expected).abs().max() <= TOLERANCE * expected.abs().max())
