"""Eight-bit weights, one scale for each output, on torch's CPU kernel; rows are bfloat16, as it is slow with others."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["Int8Map", "int8_works", "quantise_int8"]

LARGEST_CODE = 127
TOLERANCE = 1e-2  # of the largest result; bfloat16 alone takes 3e-3


@dataclass(frozen=True, slots=True)
class Int8Map:
    """Map rows x to x @ weight.T; ``codes`` (out, in) int8 and ``scales`` (out,) bfloat16."""

    codes: Tensor
    scales: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Map (T, in) to (T, out) bfloat16."""
        narrow = rows.to(torch.bfloat16).contiguous()
        mapped: Tensor = torch.ops.aten._weight_int8pack_mm(narrow, self.codes, self.scales)
        return mapped


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
    got = Int8Map(codes, scales)(rows).float()
    return bool((got - expected).abs().max() <= TOLERANCE * expected.abs().max())
