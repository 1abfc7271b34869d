"""What a Llama-like pass reads and writes of one sequence: keys and values, rotary tables, scratch."""

from typing import NamedTuple

import torch
from torch import Tensor

from memspec_actors.models.checkpoints.architecture import DecoderShape

__all__ = ["Memory", "Row", "has_row", "new_row"]


class Row(NamedTuple):
    """Scratch for the one-token pass, and the views into it that would otherwise be made again in every layer."""

    hidden: Tensor  # (1, D)
    hidden_vector: Tensor
    normed: Tensor
    qkv: Tensor  # (1, q + 2 kv)
    heads: Tensor  # qkv as (H + 2 Hkv, head_dim)
    swapped: Tensor
    swap_halves: Tensor
    cos: Tensor  # values pass through the rotation too, unturned: one kernel for all three is cheaper than slicing
    sin: Tensor
    turned_cos: Tensor
    turned_sin: Tensor
    rotated: Tensor
    query: Tensor  # (Hkv, G, head_dim)
    key_value: Tensor  # (2, Hkv, head_dim)
    attended: Tensor
    attended_row: Tensor
    gate_up: Tensor
    gate: Tensor
    up: Tensor


class Memory(NamedTuple):
    """What a pass reads and writes of a sequence: keys and values (L, 2, Hkv, capacity, head_dim), rotary tables."""

    kv: Tensor
    cos: Tensor
    sin: Tensor
    row: Row


def has_row(dtype: torch.dtype, device: torch.device) -> bool:
    """Tell whether there is a one-token pass, which needs scratch: it pays in float32 on the CPU only."""
    return dtype == torch.float32 and device.type == "cpu"


def new_row(shape: DecoderShape, dtype: torch.dtype, device: torch.device) -> Row:
    """Return scratch for the one-token pass of a model, of no size where it has none."""
    if not has_row(dtype, device):
        return Row(*[torch.empty(0)] * len(Row._fields))
    heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
    hidden = torch.zeros(1, shape.hidden_size, dtype=dtype)
    qkv = torch.zeros(1, shape.q_size + 2 * shape.kv_size, dtype=dtype)
    by_head = qkv.view(heads + 2 * kv_heads, dim)
    cos, sin, rotated = torch.ones_like(by_head), torch.zeros_like(by_head), torch.zeros_like(by_head)
    query = rotated[:heads].view(kv_heads, heads // kv_heads, dim)
    attended = torch.zeros_like(query)
    gate_up = torch.zeros(1, 2 * shape.intermediate_size, dtype=dtype)
    gate, up = gate_up.chunk(2, -1)
    return Row(
        hidden=hidden,
        hidden_vector=hidden[0],
        normed=torch.zeros_like(hidden),
        qkv=qkv,
        heads=by_head,
        swapped=torch.zeros_like(by_head),
        swap_halves=torch.arange(dim).roll(dim // 2),
        cos=cos,
        sin=sin,
        turned_cos=cos[: heads + kv_heads],
        turned_sin=sin[: heads + kv_heads],
        rotated=rotated,
        query=query,
        key_value=rotated[heads:].view(2, kv_heads, dim),
        attended=attended,
        attended_row=attended.view(1, shape.q_size),
        gate_up=gate_up,
        gate=gate,
        up=up,
    )
