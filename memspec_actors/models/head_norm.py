"""A query/key/value map whose query and key heads come out normalised, as Qwen3 has it."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from memspec_actors.models.projection import LinearMap

__all__ = ["HeadNorm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadNorm:
    """Map rows to q|k|v by ``qkv``, then root-mean-square normalise each head of q and of k; weights (head_dim,)."""

    qkv: LinearMap
    q_weight: Tensor
    k_weight: Tensor
    q_size: int
    kv_size: int
    eps: float

    @property
    def extra_nbytes(self) -> int:
        return self.qkv.extra_nbytes

    def __call__(self, rows: Tensor) -> Tensor:
        """Map (T, in) to (T, q + 2 kv)."""
        return self._normalise(self.qkv(rows))

    def scaled_row(self, row: Tensor, scale: float, out: Tensor) -> None:
        """Write the map of scale * row to ``out``; all (1, n)."""
        self.qkv.scaled_row(row, scale, out)
        self._normalise(out)

    def _normalise(self, mapped: Tensor) -> Tensor:
        end = 0
        for weight, size in ((self.q_weight, self.q_size), (self.k_weight, self.kv_size)):
            heads = mapped[:, end : end + size].view(len(mapped), -1, len(weight))
            heads.copy_(F.rms_norm(heads, weight.shape, weight, self.eps))
            end += size
        return mapped
