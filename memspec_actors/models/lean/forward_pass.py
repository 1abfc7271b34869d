"""A Llama-like forward pass on raw tensors, for one sequence: nothing but the kernels and a loop over the layers.

TorchScript as well as Python (see `script`). A float32 pass over a single token has a path of its own. There the time
goes into starting kernels rather than into arithmetic, so the normalisation's scale rides on the matrix product (it is
one number), keys and values are written together, and every intermediate lies in a buffer made once.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memspec_actors.models.kernels.linear import add_mapped, add_unpacked, map_rows, map_scaled_row
from memspec_actors.models.lean.memory import Memory, Row
from memspec_actors.models.lean.weights import LayerWeights, ModelWeights

__all__ = ["LeanPass"]


class LeanPass(nn.Module):
    """Append tokens to a sequence of ``start`` tokens whose memory has room for them, and return logits."""

    weights: ModelWeights

    def __init__(self, weights: ModelWeights, num_heads: int, window: int, eps: float) -> None:
        super().__init__()
        self.weights = weights
        self.num_heads = num_heads
        self.window = window  # tokens that a token sees, itself included
        self.eps = eps

    def forward(self, ids: Tensor, start: int, memory: Memory, logits_to_keep: int) -> Tensor:
        """Run a block of T tokens, each seeing the sequence and those before it; return (T, V).

        With ``logits_to_keep`` n > 0 only the last n rows of it are made.
        """
        weights, num = self.weights, ids.size(0)
        end = start + num
        hidden = F.embedding(ids, weights.embedding)  # (T, D)
        cos, sin = memory.cos[start:end].unsqueeze(1), memory.sin[start:end].unsqueeze(1)  # (T, 1, head_dim)
        first = max(0, start + 1 - self.window)  # no token of the block sees those before
        mask: Tensor | None = None
        if num > 1 and (start > 0 or end > self.window):
            mask = self._mask(start, first, end, hidden)
        for index, layer in enumerate(weights.layers):
            query, key, value = self._heads(hidden, layer, cos, sin)
            keys, values = memory.kv[index, 0], memory.kv[index, 1]
            keys[:, start:end] = key
            values[:, start:end] = value
            attended = F.scaled_dot_product_attention(  # (1, H, T, head_dim)
                query.unsqueeze(0),
                keys[:, first:end].unsqueeze(0),
                values[:, first:end].unsqueeze(0),
                attn_mask=mask,
                is_causal=mask is None and num > 1,
                enable_gqa=self.num_heads != keys.size(0),
            )
            self._add_layer(hidden, layer, attended[0].transpose(0, 1).reshape(num, -1))
        return map_rows(weights.head, self._norm(hidden[-logits_to_keep:], weights.norm))

    @torch.jit.export
    def fixed(self, token: Tensor, place: Tensor, memory: Memory) -> Tensor:
        """Run one token at a place that need not be known here, both (1,) int64; return its logits (1, V).

        The work is the same for every place: all of the memory is attended to, through a mask. What lies beyond the
        place counts for nothing, but must be numbers.
        """
        weights, kv = self.weights, memory.kv
        hidden = F.embedding(token, weights.embedding)  # (1, D)
        cos, sin = memory.cos.index_select(0, place).unsqueeze(1), memory.sin.index_select(0, place).unsqueeze(1)
        places = torch.arange(kv.size(3), device=kv.device)
        unseen = (places > place).logical_or_(places <= place - self.window).unsqueeze(0)
        mask = torch.zeros([1, kv.size(3)], dtype=kv.dtype, device=kv.device).masked_fill_(unseen, float("-inf"))
        for index, layer in enumerate(weights.layers):
            query, key, value = self._heads(hidden, layer, cos, sin)
            keys, values = kv[index, 0], kv[index, 1]
            keys[:, place] = key
            values[:, place] = value
            # The query heads that share a key head take the place of tokens: nothing is repeated for them.
            grouped = query.view(1, keys.size(0), -1, kv.size(4))  # (1, Hkv, G, head_dim)
            attended = F.scaled_dot_product_attention(
                grouped, keys.unsqueeze(0), values.unsqueeze(0), attn_mask=mask.expand(grouped.size(2), -1)
            )
            self._add_layer(hidden, layer, attended.reshape(1, -1))
        return map_rows(weights.head, self._norm(hidden, weights.norm))

    @torch.jit.export
    def one(self, token: int, start: int, memory: Memory) -> Tensor:
        """Run one token in float32 and return its logits (1, V)."""
        self._through_layers(token, start, memory)
        return self._row_logits(memory.row)

    def _heads(self, hidden: Tensor, layer: LayerWeights, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (H, T, head_dim), keys and values (Hkv, T, head_dim) of T tokens, turned by cos and sin."""
        head_dim = cos.size(-1)
        heads = map_rows(layer.qkv, self._norm(hidden, layer.input_norm)).view(hidden.size(0), -1, head_dim)
        self._normalise_heads(heads, layer)
        num_turned = (heads.size(1) + self.num_heads) // 2  # H + Hkv of H + 2 Hkv
        turned = heads[:, :num_turned]
        turned = torch.addcmul(turned * cos, turned.roll([head_dim // 2], [-1]), sin).transpose(0, 1)
        return turned[: self.num_heads], turned[self.num_heads :], heads[:, num_turned:].transpose(0, 1)

    def _add_layer(self, hidden: Tensor, layer: LayerWeights, attended: Tensor) -> None:
        """Add to ``hidden`` (T, D) what a layer makes of attention's outcome (T, q)."""
        add_mapped(hidden, layer.out, attended)
        gate, up = map_rows(layer.gate_up, self._norm(hidden, layer.post_norm)).chunk(2, -1)
        add_mapped(hidden, layer.down, F.silu(gate, inplace=True).mul_(up))

    def _through_layers(self, token: int, start: int, memory: Memory) -> None:
        """Run one token in float32 up to the final norm; its state lies in the row."""
        row, scale, end = memory.row, memory.kv.size(4) ** -0.5, start + 1
        hidden, vector, normed = row.hidden, row.hidden_vector, row.normed
        vector.copy_(self.weights.embedding[token])
        row.turned_cos.copy_(memory.cos[start])
        row.turned_sin.copy_(memory.sin[start])
        first = max(0, end - self.window)
        for index, layer in enumerate(self.weights.layers):
            keys_values = memory.kv[index]  # (2, Hkv, capacity, head_dim)
            torch.mul(hidden, layer.input_norm, out=normed)
            map_scaled_row(layer.qkv, normed, self._inverse_rms(vector), row.qkv)
            self._normalise_heads(row.heads.unsqueeze(0), layer)
            torch.index_select(row.heads, 1, row.swap_halves, out=row.swapped)
            torch.mul(row.heads, row.cos, out=row.rotated).addcmul_(row.swapped, row.sin)
            keys_values.select(2, start).copy_(row.key_value)
            seen = keys_values.narrow(2, first, end - first)
            scores = torch.bmm(row.query, seen[0].transpose(1, 2)).mul_(scale)  # (Hkv, G, seen)
            torch.bmm(torch.softmax(scores, -1), seen[1], out=row.attended)
            add_unpacked(hidden, layer.out, row.attended_row)
            torch.mul(hidden, layer.post_norm, out=normed)
            map_scaled_row(layer.gate_up, normed, self._inverse_rms(vector), row.gate_up)
            add_unpacked(hidden, layer.down, F.silu(row.gate, inplace=True).mul_(row.up))

    def _row_logits(self, row: Row) -> Tensor:
        torch.mul(row.hidden, self.weights.norm, out=row.normed)
        logits = torch.empty([1, self.weights.embedding.size(0)])
        map_scaled_row(self.weights.head, row.normed, self._inverse_rms(row.hidden_vector), logits)
        return logits

    def _inverse_rms(self, vector: Tensor) -> float:
        square_sum = float(torch.dot(vector, vector))
        return 1.0 / math.sqrt(square_sum / vector.size(0) + self.eps)

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Root-mean-square normalise (T, D)."""
        if hidden.dtype != torch.float32:
            return F.rms_norm(hidden, [hidden.size(1)], weight, self.eps)
        length = torch.linalg.vector_norm(hidden, dim=[-1], keepdim=True)
        root = length.square_().mul_(1.0 / hidden.size(1)).add_(self.eps).sqrt_()
        return torch.div(hidden, root).mul_(weight)

    def _normalise_heads(self, heads: Tensor, layer: LayerWeights) -> None:
        """Root-mean-square normalise query and key heads of (T, H + 2 Hkv, head_dim) in place, if the model does."""
        q_norm, k_norm, num_kv_heads = layer.q_norm, layer.k_norm, (heads.size(1) - self.num_heads) // 2
        if q_norm is not None and k_norm is not None:
            for weight, of in (
                (q_norm, heads[:, : self.num_heads]),
                (k_norm, heads[:, self.num_heads : self.num_heads + num_kv_heads]),
            ):
                of.copy_(F.rms_norm(of, [of.size(2)], weight, self.eps))

    def _mask(self, start: int, first: int, end: int, hidden: Tensor) -> Tensor:
        """Return (T, end - first), 0 where a token may look and minus infinity where not."""
        nothing = torch.full([end - start, end - first], float("-inf"), dtype=hidden.dtype, device=hidden.device)
        later = nothing.triu(start + 1 - first)
        return later if end <= self.window else later + nothing.tril(start - first - self.window)
