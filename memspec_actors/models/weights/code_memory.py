"""The memory of one linear map in codes: filled by a load, then what the map runs on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.errors import LoadError
from memspec_actors.models.kernels.int4 import quantise_int4
from memspec_actors.models.kernels.int8 import quantise_int8
from memspec_actors.models.kernels.linear import WeightPart
from memspec_actors.models.weights.gptq_tensors import GptqTensors
from memspec_actors.models.weights.segments import CodeSlot

__all__ = ["CodeMemory"]


@dataclass(frozen=True, slots=True)
class CodeMemory:
    """Views into a slot: codes and scales as `int4` and `int8` take them, and the order of the inputs."""

    codes: Tensor
    scales: Tensor
    order: Tensor | None
    group: int

    @classmethod
    def of(cls, view: Tensor, slot: CodeSlot) -> "CodeMemory":
        """Find the parts of a slot in the memory ``view`` that a plan is loaded into."""
        codes = view[slot.offset : slot.offset + slot.codes_nbytes].view(slot.rows, -1)
        scales = view[slot.scales_offset : slot.order_offset].view(torch.bfloat16)
        order = view[slot.order_offset :][: 4 * slot.columns].view(torch.int32) if slot.ordered else None
        if not slot.group:
            return cls(codes.view(torch.int8), scales, order, 0)
        return cls(codes, scales.view(-1, slot.rows, 2), order, slot.group)

    def part(self) -> WeightPart:
        """Return the weight that lies in this memory."""
        sorted_already = self.order is None or bool((self.order.diff() > 0).all())
        order = None if sorted_already else self.order
        return WeightPart(self.codes, scales=self.scales, group=self.group, order=order)

    def quantise(self, start: int, weight: Tensor) -> None:
        """Fill the outputs from ``start`` on with codes of float weights (rows, in); ``start`` is a multiple of 64."""
        rows = slice(start, start + len(weight))
        if self.group:
            self.codes[rows], self.scales[:, rows] = quantise_int4(weight, self.group)
        else:
            self.codes[rows], self.scales[rows] = quantise_int8(weight)

    def arrange(self, tensors: GptqTensors) -> Tensor | None:
        """Fill in scales and the order of inputs, and return that order. Raises LoadError if it was not announced."""
        order = tensors.order()
        if self.order is not None:
            self.order.copy_(torch.arange(len(self.order)) if order is None else order)
        elif order is not None:
            raise LoadError(f"{tensors.name} is out of order though desc_act is false; correct quantize_config.json")
        self.scales.copy_(tensors.kernel_scales(self.group))
        return order
