"""The training-side Llama network: small, tied, with a copying circuit in its initial weights."""

from __future__ import annotations

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["NORM_EPS", "ROPE_THETA", "Block", "Memory", "Network", "Shape", "frequencies"]

ROPE_THETA = 10_000.0
NORM_EPS = 1e-5


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a network; `hidden` must be a multiple of `heads`."""

    hidden: int
    layers: int
    heads: int
    inner: int
    vocab: int

    @property
    def head_dim(self) -> int:
        """Give the width of one attention head."""
        return self.hidden // self.heads


class Memory:
    """The keys and values (B, H, S, D) that one layer has seen."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Take in new positions and give all of them."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat((self.keys, keys), 2), torch.cat((self.values, values), 2)
        self.keys, self.values = keys, values
        return keys, values


class Block(nn.Module):
    """One pre-norm Llama layer with fused query/key/value and gate/up projections."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.hidden
        self.norm_attention = nn.Parameter(torch.ones(d))
        self.norm_mlp = nn.Parameter(torch.ones(d))
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.gate_up = nn.Linear(d, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, d, bias=False)
        nn.init.normal_(self.qkv.weight, std=d**-0.5)
        nn.init.normal_(self.gate_up.weight, std=d**-0.5)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None = None, memory: Memory | None = None
    ) -> Tensor:
        """Map (B, T, d) to (B, T, d): causally, or under `mask` (B, 1, T, S) with the keys and values of `memory`."""
        batch, length, d = x.shape
        heads, width = self.shape.heads, self.shape.head_dim
        qkv = self.qkv(F.rms_norm(x, (d,), self.norm_attention, NORM_EPS))
        q, k, v = qkv.view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4)  # (B, H, T, D) each
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if memory is not None:
            k, v = memory.append(k, v)
        attended = _attend(q, k, v, mask)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, d))
        gate, up = self.gate_up(F.rms_norm(x, (d,), self.norm_mlp, NORM_EPS)).chunk(2, -1)
        out: Tensor = x + self.down(F.silu(gate) * up)
        return out


class Network(nn.Module):
    """A causal language model whose output layer is its embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        nn.init.normal_(self.embedding.weight, std=shape.hidden**-0.5)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        """Give logits (B, T, V) for `ids` (B, T), or (n, V) for the n positions where `keep` (B, T) is true."""
        cos, sin = _rotary(ids.shape[1], self.shape.head_dim)
        x = self.embedding(ids)
        for block in self.layers():
            x = block(x, cos, sin)
        return self._logits(x if keep is None else x[keep])

    def layers(self) -> list[Block]:
        """List the layers."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def extend(self, ids: Tensor, mask: Tensor, memories: list[Memory]) -> Tensor:
        """Feed `ids` (B, T) after what `memories` (one a layer) hold and give the last position's logits (B, V).

        `mask` (B, S + T) is true where a position is real; rotary position is relative, so left padding is free.
        """
        start, length = mask.shape[1] - ids.shape[1], ids.shape[1]
        cos, sin = (part[start:] for part in _rotary(mask.shape[1], self.shape.head_dim))
        causal = torch.ones(length, mask.shape[1], dtype=torch.bool).tril(start)
        allowed = causal[None, None] & mask[:, None, None, :]
        allowed = allowed | torch.eye(length, mask.shape[1], dtype=torch.bool).roll(start, 1)  # padding sees itself
        x = self.embedding(ids)
        for block, memory in zip(self.layers(), memories, strict=True):
            x = block(x, cos, sin, allowed, memory)
        return self._logits(x[:, -1])

    def _logits(self, x: Tensor) -> Tensor:
        return F.linear(F.rms_norm(x, (self.shape.hidden,), self.norm, NORM_EPS), self.embedding.weight)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attend causally, or under `mask`; in bfloat16 by plain products, whose gradients cost less."""
    if mask is not None or q.dtype is not torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and q.shape[2] > 1)
    length = q.shape[2]
    hidden = torch.full((length, length), float("-inf"), dtype=q.dtype).triu(1)
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + hidden, -1) @ v


def frequencies(width: int) -> Tensor:
    """Give the rotary angle per token (D / 2,) of each pair of dimensions."""
    return 1.0 / ROPE_THETA ** (torch.arange(0, width, 2).float() / width)


def _rotary(length: int, width: int) -> tuple[Tensor, Tensor]:
    """Give the cosines and sines (T, D) of rotary position embedding in the half-split layout."""
    angles = torch.outer(torch.arange(length).float(), frequencies(width)).repeat(1, 2)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin
