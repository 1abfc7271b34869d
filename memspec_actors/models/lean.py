"""A Llama-like forward pass on raw tensors, for one sequence: nothing but the kernels and a loop over the layers.

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
from memspec_actors.models.device import ids_on
from memspec_actors.models.head_norm import HeadNorm
from memspec_actors.models.projection import LinearMap
from memspec_actors.models.runner import Cache

__all__ = ["LayerWeights", "LeanRunner", "ModelWeights"]

WINDOWED_TOKENS = 512  # run at once where a window needs a mask


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer's weights; q|k|v and gate|up are side by side."""

    input_norm: Tensor
    qkv: LinearMap | HeadNorm
    out: LinearMap
    post_norm: Tensor
    gate_up: LinearMap
    down: LinearMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """All weights; the embedding is (V, D) in whatever memory order."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: LinearMap

    @property
    def extra_nbytes(self) -> int:
        """Bytes of the second copies that blocks of rows run on."""
        maps: list[LinearMap | HeadNorm] = [self.head]
        for layer in self.layers:
            maps += (layer.qkv, layer.out, layer.gate_up, layer.down)
        return sum(map_.extra_nbytes for map_ in maps)


class LeanRunner:
    """Run a model of the Llama kind; its logits are those of transformers."""

    def __init__(self, shape: DecoderShape, dtype: torch.dtype, weights: ModelWeights, *, nbytes: int) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.max_positions = shape.max_positions
        self.dtype = dtype
        self.nbytes = nbytes
        self.device = weights.norm.device
        self._weights = weights
        self._scale = shape.head_dim**-0.5
        self._eps = torch.tensor(shape.rms_eps, dtype=dtype, device=self.device)
        self._has_one = dtype == torch.float32 and self.device.type == "cpu"

    def new_cache(self, max_tokens: int) -> KvCache:
        """Return an empty cache for about ``max_tokens`` tokens; it grows up to ``max_positions``."""
        return KvCache(self.shape, self.dtype, max_tokens, self.device)

    @torch.inference_mode()
    def forward(self, ids: Tensor | Sequence[int], cache: Cache, last_only: bool = False) -> Tensor:
        """Append T tokens to ``cache`` and return logits (T, V), or (1, V) of the last one only.

        Raises ValueError for no tokens, or more than ``max_positions`` in all; IndexError for an id out of range. Ids
        in a tensor on a device are not looked at: they are to be in range.
        """
        if not isinstance(cache, KvCache):
            raise TypeError(f"the cache is a {type(cache).__name__}; make it with new_cache of this runner")
        if len(ids) == 0:
            raise ValueError("there are no tokens to run")
        if len(ids) == 1 and self._has_one:
            return self._one(int(ids[0]), cache)
        block = self._checked(ids)
        if cache.length + len(block) > self.shape.window and len(block) > WINDOWED_TOKENS:
            return self._pieces(block, cache, last_only)
        return self._block(block, cache, last_only)

    def _checked(self, ids: Tensor | Sequence[int]) -> Tensor:
        """Bring ids to the weights. A device does not recover from an id out of range, so the host looks first."""
        if self.device.type == "cpu":
            return torch.as_tensor(ids, dtype=torch.int64)
        if not isinstance(ids, Tensor) and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise IndexError(f"a token id of {min(ids)} to {max(ids)} is not in a vocabulary of {self.vocab_size}")
        return ids_on(self.device, ids)

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
        seen = slice(max(0, end - self.shape.window), end)
        keys = cache.kv[:, 0, :, seen].transpose(-1, -2).unbind(0)  # L of (Hkv, head_dim, seen)
        values = cache.kv[:, 1, :, seen].unbind(0)  # L of (Hkv, seen, head_dim)
        for layer, slot, key, value in zip(weights.layers, slots, keys, values, strict=True):
            torch.mul(hidden, layer.input_norm, out=normed)
            layer.qkv.scaled_row(normed, self._inverse_rms(vector), row.qkv)
            self._attend_row(row, slot, key, value)
            layer.out.add_row_to(hidden, row.attended_row)
            torch.mul(hidden, layer.post_norm, out=normed)
            layer.gate_up.scaled_row(normed, self._inverse_rms(vector), row.gate_up)
            layer.down.add_row_to(hidden, F.silu(row.gate, inplace=True).mul_(row.up))
        cache.extend(end)
        torch.mul(hidden, weights.norm, out=normed)
        logits = torch.empty(1, self.vocab_size)
        weights.head.scaled_row(normed, self._inverse_rms(vector), logits)
        return logits

    def _attend_row(self, row: RowBuffers, slot: Tensor, key: Tensor, value: Tensor) -> None:
        torch.index_select(row.qkv_heads, 1, row.swap_halves, out=row.swapped)
        torch.mul(row.qkv_heads, row.cos, out=row.rotated).addcmul_(row.swapped, row.sin)
        slot.copy_(row.key_value)
        scores = torch.baddbmm(row.nothing, row.query, key, beta=0, alpha=self._scale)  # (Hkv, G, seen)
        torch.bmm(torch.softmax(scores, -1), value, out=row.attended)

    def _inverse_rms(self, vector: Tensor) -> float:
        square_sum: float = torch.dot(vector, vector).item()
        return float((square_sum / self.shape.hidden_size + self.shape.rms_eps) ** -0.5)

    def _pieces(self, ids: Tensor, cache: KvCache, last_only: bool) -> Tensor:
        """Run a long text through a window piece by piece: a mask for all of it could outgrow the model."""
        start = cache.length
        cache.reserve(len(ids))
        try:
            pieces = [self._block(piece, cache, last_only) for piece in torch.split(ids, WINDOWED_TOKENS)]
        except IndexError:
            cache.truncate(start)
            raise
        return pieces[-1] if last_only else torch.cat(pieces)

    def _block(self, ids: Tensor, cache: KvCache, last_only: bool) -> Tensor:
        """Run a block of tokens, each seeing the cache and those before it."""
        weights, shape, start, num = self._weights, self.shape, cache.length, len(ids)
        end = cache.reserve(num)
        hidden = F.embedding(ids, weights.embedding)  # (T, D)
        cos, sin = cache.cos[start:end, None], cache.sin[start:end, None]  # (T, 1, head_dim)
        first = max(0, start + 1 - shape.window)  # no token of the block sees those before
        hidden_ones = num > 1 and (start > 0 or end > shape.window)
        mask = _mask(start, first, end, shape.window, cache.kv) if hidden_ones else None
        for index, layer in enumerate(weights.layers):
            heads = layer.qkv(self._norm(hidden, layer.input_norm)).view(num, -1, shape.head_dim)
            turned = heads[:, : shape.num_heads + shape.num_kv_heads]
            turned = torch.addcmul(turned * cos, turned.roll(shape.head_dim // 2, -1), sin).transpose(0, 1)
            keys, values = cache.kv[index]
            keys[:, start:end] = turned[shape.num_heads :]
            values[:, start:end] = heads[:, shape.num_heads + shape.num_kv_heads :].transpose(0, 1)
            attended = F.scaled_dot_product_attention(  # (1, H, T, head_dim)
                turned[None, : shape.num_heads],
                keys[None, :, first:end],
                values[None, :, first:end],
                attn_mask=mask,
                is_causal=mask is None and num > 1,
                enable_gqa=shape.num_heads != shape.num_kv_heads,
            )
            layer.out.add_to(hidden, attended[0].transpose(0, 1).reshape(num, shape.q_size))
            gate, up = layer.gate_up(self._norm(hidden, layer.post_norm)).chunk(2, -1)
            layer.down.add_to(hidden, F.silu(gate, inplace=True).mul_(up))
        cache.extend(end)
        return weights.head(self._norm(hidden[-1:] if last_only else hidden, weights.norm))

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square normalise (T, D)."""
        if self.dtype != torch.float32:
            return F.rms_norm(hidden, (self.shape.hidden_size,), weight, self.shape.rms_eps)
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        root = torch.addcmul(self._eps, length, length, value=1.0 / self.shape.hidden_size).sqrt_()
        return torch.div(hidden, root).mul_(weight)


def _mask(start: int, first: int, end: int, window: int, like: Tensor) -> Tensor:
    """Return (T, end - first), 0 where a token may look and minus infinity where not."""
    nothing = like.new_full((end - start, end - first), -torch.inf)
    later = nothing.triu(start + 1 - first)
    return later if end <= window else later + nothing.tril(start - first - window)
