"""Rotary position tables (Su et al. 2021), with the scalings that Llama checkpoints use."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from memspec_actors.models.checkpoints.rope_config import Rope

__all__ = ["rope_table"]


@lru_cache(maxsize=32)
def rope_table(
    rope: Rope, head_dim: int, num_positions: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return cos and sin (num_positions, head_dim); x is rotated as x * cos + swap_halves(x) * sin.

    The first half of sin is negated, so that swapping halves needs no further sign. Drafts of one shape share a table.
    """
    with torch.inference_mode(False):
        angles = torch.outer(torch.arange(num_positions).float(), _frequencies(rope, head_dim))
        cos, sin = angles.cos() * rope.attention_factor, angles.sin() * rope.attention_factor
        return torch.cat((cos, cos), -1).to(device, dtype), torch.cat((-sin, sin), -1).to(device, dtype)


def _frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Return the angle per position of each pair of dimensions, (head_dim / 2,)."""
    frequencies = 1.0 / rope.theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    if rope.kind == "default":
        return frequencies
    if rope.kind == "linear":
        return frequencies / rope.factor
    kept = _kept_by_turns(frequencies, rope) if rope.kind == "llama3" else _kept_by_place(head_dim, rope)
    return kept * frequencies + (1.0 - kept) * frequencies / rope.factor


def _kept_by_turns(frequencies: Tensor, rope: Rope) -> Tensor:
    """Slow down the long wavelengths, leave the short ones, and blend in between, as Llama 3.1 does."""
    turns = rope.original_max_positions * frequencies / (2 * math.pi)
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    return blend.clamp(0.0, 1.0)


def _kept_by_place(head_dim: int, rope: Rope) -> Tensor:
    """Do the same by the place of a pair, on a straight ramp, as YaRN does (Peng et al. 2023, section 3.2)."""

    def place(turns: float) -> float:
        """Return where a pair would stand that turns so often over the original context."""
        return head_dim * math.log(rope.original_max_positions / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = place(rope.beta_fast), place(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = (torch.arange(head_dim // 2).float() - low) / (high - low if high != low else 0.001)
    return 1.0 - ramp.clamp(0.0, 1.0)
