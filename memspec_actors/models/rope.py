"""Rotary position tables (Su et al. 2021), with the scalings that Llama checkpoints use."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from memspec_actors.models.architecture import Rope

__all__ = ["rope_table"]


@lru_cache(maxsize=32)
def rope_table(rope: Rope, head_dim: int, num_positions: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cos and sin (num_positions, head_dim); x is rotated as x * cos + swap_halves(x) * sin.

    The first half of sin is negated, so that swapping halves needs no further sign. Drafts of one shape share a table.
    """
    with torch.inference_mode(False):
        angles = torch.outer(torch.arange(num_positions).float(), _frequencies(rope, head_dim))
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)


def _frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Return the angle per position of each pair of dimensions, (head_dim / 2,)."""
    frequencies = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        return _llama3(frequencies, rope)
    return frequencies


def _llama3(frequencies: Tensor, rope: Rope) -> Tensor:
    """Slow down the long wavelengths, leave the short ones, and blend in between."""
    turns = rope.original_max_positions * frequencies / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = blend.clamp(0.0, 1.0)
    return kept * frequencies + (1.0 - kept) * frequencies / rope.factor
