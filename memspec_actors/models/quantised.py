"""A linear map of which some parts, or all, run on codes; the parts' outputs lie side by side."""

from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.models.int4 import Int4Map
from memspec_actors.models.int8 import Int8Map
from memspec_actors.models.projection import Projection

__all__ = ["QuantisedProjection"]


@dataclass(frozen=True, slots=True)
class QuantisedProjection:
    """Map rows x to the parts' outputs, side by side, plus bias, in the dtype of the rows."""

    parts: tuple[Projection | Int4Map | Int8Map, ...]
    bias: Tensor | None = None

    @property
    def extra_nbytes(self) -> int:
        """Bytes of the copies that blocks of rows run on."""
        return sum(part.extra_nbytes for part in self.parts if isinstance(part, Projection))

    def __call__(self, rows: Tensor) -> Tensor:
        """Map (T, in) to (T, out)."""
        mapped = self._without_bias(rows)
        return mapped if self.bias is None else mapped.add_(self.bias)

    def add_to(self, hidden: Tensor, rows: Tensor) -> None:
        """Add the map of ``rows`` to ``hidden`` (T, out) in place."""
        hidden.add_(self(rows))

    def scaled_row(self, row: Tensor, scale: float, out: Tensor) -> None:
        """Write scale * row @ weight + bias to ``out``; all (1, n)."""
        out.copy_(self(row * scale))  # scaled first, so that the kernel rounds what it rounds in a block of rows

    def add_row_to(self, hidden: Tensor, row: Tensor) -> None:
        """Add the map of one row to ``hidden``, both (1, n)."""
        hidden.add_(self(row))

    def _without_bias(self, rows: Tensor) -> Tensor:
        outputs = [part(rows).to(rows.dtype) for part in self.parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
