"""Linear maps of a model: parts that lie side by side, each of floats or of codes, and a bias.

The functions are TorchScript as well as Python (see `script`). A weight of floats is (in, out) in whatever memory order
is fastest for one row; `packing` adds the order that is fastest for a block of rows.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from memspec_actors.models.kernels.int4 import int4_product
from memspec_actors.models.kernels.int8 import int8_product

__all__ = ["LinearMap", "WeightPart", "add_mapped", "add_unpacked", "map_part", "map_rows", "map_scaled_row"]


class WeightPart(NamedTuple):
    """One weight: floats (in, out), with oneDNN's copy or without, or codes, of `int8` (``group`` 0) or `int4`."""

    weight: Tensor
    packed: Tensor | None = None
    scales: Tensor | None = None
    group: int = 0
    order: Tensor | None = None


class LinearMap(NamedTuple):
    """Map rows x to the outputs of all parts, side by side, plus bias."""

    parts: list[WeightPart]
    bias: Tensor | None = None

    @property
    def extra_nbytes(self) -> int:
        """Bytes that the map takes beside the memory it was bound to."""
        packed = [part.packed for part in self.parts if part.packed is not None]
        return sum(each.numel() * each.element_size() for each in packed)


if hasattr(torch.ops.mkldnn, "_linear_pointwise"):

    def _packed_product(rows: Tensor, packed: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")
        return product

else:

    def _packed_product(rows: Tensor, packed: Tensor) -> Tensor:
        raise RuntimeError("this build of torch has no oneDNN")


def map_part(part: WeightPart, rows: Tensor) -> Tensor:
    """Map (T, in) to (T, out), in bfloat16 if the weight is in codes."""
    scales, packed = part.scales, part.packed
    if scales is None:
        return torch.mm(rows, part.weight) if packed is None else _packed_product(rows, packed)
    if part.group == 0:
        return int8_product(rows, part.weight, scales)
    return int4_product(rows, part.weight, scales, part.group, part.order)


def map_rows(linear: LinearMap, rows: Tensor) -> Tensor:
    """Map (T, in) to (T, out) in the dtype of the rows."""
    outputs = [map_part(part, rows).to(rows.dtype) for part in linear.parts]
    mapped = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
    bias = linear.bias
    return mapped if bias is None else mapped.add_(bias)


def add_mapped(hidden: Tensor, linear: LinearMap, rows: Tensor) -> None:
    """Add the map of ``rows`` (T, in) to ``hidden`` (T, out) in place."""
    if linear.parts[0].packed is None:
        add_unpacked(hidden, linear, rows)
    else:
        hidden.add_(map_rows(linear, rows))


def add_unpacked(hidden: Tensor, linear: LinearMap, rows: Tensor) -> None:
    """Do as `add_mapped`, but leave oneDNN's copy aside: a single row is fastest as a plain product."""
    if not _is_floats(linear):
        hidden.add_(map_rows(linear, rows))
        return
    hidden.addmm_(rows, linear.parts[0].weight)
    bias = linear.bias
    if bias is not None:
        hidden.add_(bias)


def map_scaled_row(linear: LinearMap, row: Tensor, scale: float, out: Tensor) -> None:
    """Write scale * row @ weight + bias to ``out``; all (1, n)."""
    bias = linear.bias
    if not _is_floats(linear):
        out.copy_(map_rows(linear, row * scale))  # scaled first, so that codes' kernels round as in a block of rows
    elif bias is None:
        torch.addmm(out, row, linear.parts[0].weight, beta=0, alpha=scale, out=out)
    else:
        torch.addmm(bias, row, linear.parts[0].weight, alpha=scale, out=out)


def _is_floats(linear: LinearMap) -> bool:
    """Tell whether a map is a single weight of floats."""
    return len(linear.parts) == 1 and linear.parts[0].scales is None
