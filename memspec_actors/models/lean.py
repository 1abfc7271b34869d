"""A Llama/Qwen2 forward pass on raw tensors, for one sequence: nothing but the kernels and a loop over the layers.

A float32 pass over a single token has a path of its own. There the time goes into starting kernels rather than into
arithmetic, so the normalisation's scale rides on the matrix product (it is one number), keys and values are written
together, and every intermediate lies in a buffer made once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from memspec_actors.models.architecture import DecoderShape
from memspec_actors.models.cache import KvCache, RowBuffers
from memspec_actors.models.runner import Cache

__all__ = ["LayerWeights", "LeanRunner", "ModelWeights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer's weights, as (in, out) in whatever memory order; q|k|v and gate|up are side by side."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    post_norm: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """All weights: the embedding is (V, D), the head (D, V), in whatever memory order."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor


class LeanRunner:
    """Run a model of the Llama or Qwen2 family; its logits are those of transformers."""

    def __init__(self, shape: DecoderShape, dtype: torch.dtype, weights: ModelWeights, *, nbytes: int) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.max_positions = shape.max_positions
        self.dtype = dtype
        self.nbytes = nbytes
        self._weights = weights
        self._scale = shape.head_dim**-0.5
        self._eps = torch.tensor(shape.rms_eps, dtype=dtype).view(1, 1, 1)

    def new_cache(self, max_tokens: int) -> KvCache:
        """Return an empty cache for about ``max_tokens`` tokens; it grows up to ``max_positions``."""
        return KvCache(self.shape, self.dtype, max_tokens)

    @torch.inference_mode()
    def forward(self, ids: Tensor | Sequence[int], cache: Cache, last_only: bool = False) -> Tensor:
        """Append T tokens to ``cache`` and return logits (T, V), or (1, V) of the last one only.

        Raises ValueError for no tokens, or more than ``max_positions`` in all; IndexError for an id out of range.
        """
        if not isinstance(cache, KvCache):
            raise TypeError(f"the cache is a {type(cache).__name__}; make it with new_cache of this runner")
        if len(ids) == 0:
            raise ValueError("there are no tokens to run")
        if len(ids) == 1 and self.dtype == torch.float32:
            return self._one(int(ids[0]), cache)
        return self._block(torch.as_tensor(ids, dtype=torch.int64), cache, last_only)

    def _one(self, token: int, cache: KvCache) -> Tensor:
        """Run one token in float32."""
        weights, row, position = self._weights, cache.row, cache.length
        hidden, vector, normed = row.hidden, row.hidden_vector, row.normed
        end = cache.reserve(1)
        if not 0 <= token < self.vocab_size:
            raise IndexError(f"token id {token} is not in a vocabulary of {self.vocab_size}")
        vector.copy_(weights.embedding[token])
        row.turned_cos.copy_(cache.cos[position])
        row.turned_sin.copy_(cache.sin[position])
        slots = cache.kv[:, :, :, position].unbind(0)  # L of (2, Hkv, head_dim)
        keys = cache.kv[:, 0, :, :end].transpose(-1, -2).unbind(0)  # L of (Hkv, head_dim, end)
        values = cache.kv[:, 1, :, :end].unbind(0)  # L of (Hkv, end, head_dim)
        for layer, slot, key, value in zip(weights.layers, slots, keys, values, strict=True):
            torch.mul(hidden, layer.input_norm, out=normed)
            self._scaled_product(normed, layer.qkv, layer.qkv_bias, self._inverse_rms(vector), row.qkv)
            self._attend_row(row, slot, key, value)
            hidden.addmm_(row.attended_row, layer.out)
            if layer.out_bias is not None:
                hidden.add_(layer.out_bias)
            torch.mul(hidden, layer.post_norm, out=normed)
            self._scaled_product(normed, layer.gate_up, layer.gate_up_bias, self._inverse_rms(vector), row.gate_up)
            hidden.addmm_(F.silu(row.gate, inplace=True).mul_(row.up), layer.down)
            if layer.down_bias is not None:
                hidden.add_(layer.down_bias)
        cache.extend(end)
        torch.mul(hidden, weights.norm, out=normed)
        return torch.addmm(row.nothing, normed, weights.head, beta=0, alpha=self._inverse_rms(vector))

    def _attend_row(self, row: RowBuffers, slot: Tensor, key: Tensor, value: Tensor) -> None:
        torch.index_select(row.qkv_heads, 1, row.swap_halves, out=row.swapped)
        torch.mul(row.qkv_heads, row.cos, out=row.rotated).addcmul_(row.swapped, row.sin)
        slot.copy_(row.key_value)
        scores = torch.baddbmm(row.nothing, row.query, key, beta=0, alpha=self._scale)  # (Hkv, G, end)
        torch.bmm(torch.softmax(scores, -1), value, out=row.attended)

    def _inverse_rms(self, vector: Tensor) -> float:
        square_sum: float = torch.dot(vector, vector).item()
        return float((square_sum / self.shape.hidden_size + self.shape.rms_eps) ** -0.5)

    @staticmethod
    def _scaled_product(row: Tensor, weight: Tensor, bias: Tensor | None, scale: float, out: Tensor) -> None:
        """Write ``scale * row @ weight + bias`` to ``out``."""
        if bias is None:
            torch.addmm(out, row, weight, beta=0, alpha=scale, out=out)
        else:
            torch.addmm(bias, row, weight, alpha=scale, out=out)

    def _block(self, ids: Tensor, cache: KvCache, last_only: bool) -> Tensor:
        """Run a block of tokens, each seeing the cache and those before it."""
        weights, shape, start, num = self._weights, self.shape, cache.length, len(ids)
        end = cache.reserve(num)
        hidden = F.embedding(ids, weights.embedding)  # (T, D)
        cos, sin = cache.cos[start:end, None], cache.sin[start:end, None]  # (T, 1, head_dim)
        mask = _causal_mask(start, end, self.dtype) if start and num > 1 else None
        for index, layer in enumerate(weights.layers):
            qkv = _linear(self._norm(hidden, layer.input_norm), layer.qkv, layer.qkv_bias)
            heads = qkv.view(num, -1, shape.head_dim)
            turned = heads[:, : shape.num_heads + shape.num_kv_heads]
            turned = torch.addcmul(turned * cos, turned.roll(shape.head_dim // 2, -1), sin).transpose(0, 1)
            keys, values = cache.kv[index]
            keys[:, start:end] = turned[shape.num_heads :]
            values[:, start:end] = heads[:, shape.num_heads + shape.num_kv_heads :].transpose(0, 1)
            attended = F.scaled_dot_product_attention(  # (1, H, T, head_dim)
                turned[None, : shape.num_heads],
                keys[None, :, :end],
                values[None, :, :end],
                attn_mask=mask,
                is_causal=mask is None and num > 1,
                enable_gqa=shape.num_heads != shape.num_kv_heads,
            )
            hidden = _add_linear(
                hidden, attended[0].transpose(0, 1).reshape(num, shape.q_size), layer.out, layer.out_bias
            )
            gate_up = _linear(self._norm(hidden, layer.post_norm), layer.gate_up, layer.gate_up_bias)
            gate, up = gate_up.chunk(2, -1)
            hidden = _add_linear(hidden, F.silu(gate, inplace=True).mul_(up), layer.down, layer.down_bias)
        cache.extend(end)
        return torch.mm(self._norm(hidden[-1:] if last_only else hidden, weights.norm), weights.head)

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square normalise (T, D)."""
        if self.dtype != torch.float32:
            return F.rms_norm(hidden, (self.shape.hidden_size,), weight, self.shape.rms_eps)
        # x . x of each row as a batch of inner products: four kernels where rms_norm runs six.
        mean_square = torch.baddbmm(
            self._eps, hidden.unsqueeze(1), hidden.unsqueeze(2), alpha=1.0 / self.shape.hidden_size
        )
        return (hidden * mean_square.rsqrt_().view(-1, 1)).mul_(weight)


def _causal_mask(start: int, end: int, dtype: torch.dtype) -> Tensor:
    """Return (T, end), 0 where a token may look and minus infinity where not."""
    return torch.full((end - start, end), -torch.inf, dtype=dtype).triu_(start + 1)


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.mm(rows, weight) if bias is None else torch.addmm(bias, rows, weight)


def _add_linear(hidden: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Add ``rows @ weight + bias`` to ``hidden`` in place."""
    hidden = hidden.addmm_(rows, weight)
    return hidden if bias is None else hidden.add_(bias)
