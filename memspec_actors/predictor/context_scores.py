"""What encoder and ranking head make of one context, in few kernels.

Between two rankings of a text a core's caches lose what a ranking runs: fetching the code of its kernels then takes
longer than the sums. So there are no batches and no padding here, and of several ways to the same sum this goes the one
that calls less code.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memspec_actors.predictor.encoder import BertEncoder, EncoderLayer, activate
from memspec_actors.predictor.head import RankingHead

__all__ = ["ContextScores"]

Rows = Callable[[Tensor], Tensor]  # (T, I) -> (T, O)


class ContextScores(nn.Module):
    """Give the probabilities (2, D) of the head's drafts for the ``ids`` and ``token_types`` (T,) of one context."""

    def __init__(self, encoder: BertEncoder, head: RankingHead) -> None:
        super().__init__()
        self._words, self._token_types = encoder.words.weight, encoder.token_types.weight
        self._positions = encoder.positions.weight
        self._embedding_norm = encoder.embedding_norm
        self._layers = [_Layer(layer) for layer in encoder.layers if isinstance(layer, EncoderLayer)]
        self._head_norm = head.norm
        self._head = _two_linears(head.inner, head.outer, "gelu")

    def forward(self, ids: Tensor, token_types: Tensor) -> Tensor:
        x = F.embedding(ids, self._words) + F.embedding(token_types, self._token_types)
        x = self._embedding_norm(x + self._positions[: ids.shape[0]])
        *layers, last = self._layers
        for layer in layers:
            x = layer(x, x)
        return self._head(self._head_norm(last(x[:1], x))).view(2, -1).softmax(-1)


class _Layer:
    """An encoder's layer for one context."""

    def __init__(self, layer: EncoderLayer) -> None:
        width = layer.norm.normalized_shape[0]
        self._per_head = layer.num_heads, width // layer.num_heads
        weight, bias = layer.qkv.weight, layer.qkv.bias
        self._query = _linear(weight[:width], bias[:width])
        self._key_value = _linear(weight[width:], bias[width:])
        self._attention_out = _linear(layer.attention_out.weight, layer.attention_out.bias)
        self._attention_norm, self._norm = layer.attention_norm, layer.norm
        self._feed_forward = _two_linears(layer.inner, layer.outer, layer.activation)

    def __call__(self, x: Tensor, context: Tensor) -> Tensor:
        """Give the states of the tokens ``x`` (Q, W) of a ``context`` (T, W)."""
        (q,) = self._heads(self._query(x))
        k, v = self._heads(self._key_value(context))
        attended = F.scaled_dot_product_attention(q, k, v)  # (1, H, Q, D)
        x = self._attention_norm(x + self._attention_out(attended.transpose(1, 2).reshape(x.shape)))
        normed: Tensor = self._norm(x + self._feed_forward(x))
        return normed

    def _heads(self, projected: Tensor) -> tuple[Tensor, ...]:  # (T, n W) -> n of (1, H, T, D)
        return projected.view(1, projected.shape[0], -1, *self._per_head).permute(2, 0, 3, 1, 4).unbind()


def _linear(weight: Tensor, bias: Tensor) -> Rows:
    transposed, bias = weight.t().contiguous(), bias.clone()
    return lambda rows: torch.addmm(bias, rows, transposed)


def _two_linears(inner: nn.Linear, outer: nn.Linear, activation: str) -> Rows:
    """Return the linear layers with the activation between them.

    gelu(x) = (y + y erf(y)) / sqrt(2), where y = x / sqrt(2): both roots go into the weights, and what is left takes
    half as long as torch's gelu.
    """
    if activation != "gelu":
        first, second = _linear(inner.weight, inner.bias), _linear(outer.weight, outer.bias)
        return lambda rows: second(activate(first(rows), activation))
    root = math.sqrt(2)
    first, second = _linear(inner.weight / root, inner.bias / root), _linear(outer.weight / root, outer.bias)

    def through(rows: Tensor) -> Tensor:
        y = first(rows)
        return second(torch.addcmul(y, y, torch.erf(y)))

    return through
