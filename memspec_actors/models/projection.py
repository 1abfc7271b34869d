"""One linear map of a model, in the order that is fastest for one row and, where memory allows, for a block of rows.

On a CPU in float32 the two differ. One row is fastest as a plain product with the weight as (in, out). A block of rows
runs a third faster through oneDNN with a weight it has rearranged for itself on some processors (an AMD EPYC), and
slower on others (Intel Xeons, whose own library makes the plain product), so that is measured. It costs a second copy:
only the target, whose memory is its own, has it.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["MIN_PACKED_ITEMS", "LinearMap", "Projection", "pack", "packing_pays"]

MIN_PACKED_ITEMS = 1 << 18  # below, what a oneDNN call costs by itself outweighs what it saves
PACKED_ROWS = 16  # oneDNN arranges for a row count; this one served 2 to 200 rows best
TRIAL_ROWS, TRIAL_SIZE, TRIAL_ROUNDS = 6, 512, 15
CLEAR_GAIN = 1.1  # below, a second copy of the weights is not worth its memory


class LinearMap(Protocol):
    """Map rows x to x @ weight + bias, whatever the weight is made of."""

    @property
    def extra_nbytes(self) -> int:
        """Bytes that the map takes beside the memory it was bound to."""
        ...

    def __call__(self, rows: Tensor) -> Tensor:
        """Map (T, in) to (T, out)."""
        ...

    def add_to(self, hidden: Tensor, rows: Tensor) -> None:
        """Add the map of ``rows`` to ``hidden`` (T, out) in place."""
        ...

    def scaled_row(self, row: Tensor, scale: float, out: Tensor) -> None:
        """Write scale * row @ weight + bias to ``out``; all (1, n)."""
        ...

    def add_row_to(self, hidden: Tensor, row: Tensor) -> None:
        """Add the map of one row to ``hidden``, both (1, n)."""
        ...


@dataclass(frozen=True, slots=True)
class Projection:
    """Map rows x to x @ weight + bias; ``weight`` is (in, out) in whatever memory order."""

    weight: Tensor
    bias: Tensor | None = None
    packed: Tensor | None = None

    @property
    def extra_nbytes(self) -> int:
        """Bytes of the copy that blocks of rows run on."""
        return 0 if self.packed is None else self.packed.numel() * self.packed.element_size()

    def __call__(self, rows: Tensor) -> Tensor:
        """Map (T, in) to (T, out)."""
        if self.packed is not None:
            mapped: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")
            return mapped
        return torch.mm(rows, self.weight) if self.bias is None else torch.addmm(self.bias, rows, self.weight)

    def add_to(self, hidden: Tensor, rows: Tensor) -> None:
        """Add the map of ``rows`` to ``hidden`` (T, out) in place."""
        if self.packed is not None:
            hidden.add_(self(rows))
            return
        hidden.addmm_(rows, self.weight)
        if self.bias is not None:
            hidden.add_(self.bias)

    def scaled_row(self, row: Tensor, scale: float, out: Tensor) -> None:
        """Write scale * row @ weight + bias to ``out``; all (1, n)."""
        if self.bias is None:
            torch.addmm(out, row, self.weight, beta=0, alpha=scale, out=out)
        else:
            torch.addmm(self.bias, row, self.weight, alpha=scale, out=out)

    def add_row_to(self, hidden: Tensor, row: Tensor) -> None:
        """Add the map of one row to ``hidden``, both (1, n)."""
        hidden.addmm_(row, self.weight)
        if self.bias is not None:
            hidden.add_(self.bias)


@functools.cache
def packing_pays() -> bool:
    """Tell whether blocks of rows run clearly faster on oneDNN's copy here; tried out once in a process (1 ms)."""
    plain = Projection(torch.ones(TRIAL_SIZE, TRIAL_SIZE))
    packed = pack(plain)
    rows = torch.ones(TRIAL_ROWS, TRIAL_SIZE)
    return packed.packed is not None and _least_s(plain, rows) > CLEAR_GAIN * _least_s(packed, rows)


def _least_s(linear_map: Callable[[Tensor], Tensor], rows: Tensor) -> float:
    """Return the least processor time of this thread that mapping the rows took."""
    times = []
    for _ in range(TRIAL_ROUNDS):
        began = time.thread_time()
        linear_map(rows)
        times.append(time.thread_time() - began)
    return min(times)


def pack(projection: Projection) -> Projection:
    """Add oneDNN's own copy of the weight, or return the projection as it is where that does not work.

    The operators are not public, so their result is compared with a plain product before they are trusted.
    """
    if projection.weight.dtype != torch.float32 or projection.weight.numel() < MIN_PACKED_ITEMS:
        return projection
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(projection.weight.t(), PACKED_ROWS)
        candidate = Projection(projection.weight, projection.bias, packed)
        rows = torch.linspace(-1, 1, 2 * projection.weight.shape[0]).view(2, -1)
        agrees = torch.allclose(candidate(rows), projection(rows), rtol=1e-4, atol=1e-4)
    except (AttributeError, RuntimeError, TypeError):
        return projection
    return candidate if agrees else projection
