"""The weights of a Llama-like model, as its pass runs on them."""

from typing import NamedTuple

from torch import Tensor

from memspec_actors.models.kernels.linear import LinearMap

__all__ = ["LayerWeights", "ModelWeights"]


class LayerWeights(NamedTuple):
    """One layer's weights; q|k|v and gate|up are side by side. Norms of heads (head_dim,) are Qwen3's."""

    input_norm: Tensor
    qkv: LinearMap
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: LinearMap
    post_norm: Tensor
    gate_up: LinearMap
    down: LinearMap


class ModelWeights(NamedTuple):
    """All weights; the embedding is (V, D) in whatever memory order."""

    embedding: Tensor
    layers: list[LayerWeights]
    norm: Tensor
    head: LinearMap

    @property
    def extra_nbytes(self) -> int:
        """Bytes of the second copies that blocks of rows run on."""
        maps = [self.head]
        for layer in self.layers:
            maps += (layer.qkv, layer.out, layer.gate_up, layer.down)
        return sum(each.extra_nbytes for each in maps)
