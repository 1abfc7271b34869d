"""Make floats, or the kernel's codes and scales, of the tensors that stand for a GPTQ weight."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.errors import LoadError
from memspec_actors.models.checkpoints.gptq import CODES_PER_WORD, GptqFormat, GptqWeight
from memspec_actors.models.checkpoints.header import TensorEntry
from memspec_actors.models.kernels.int4 import kernel_scales, pack_words

__all__ = ["GptqTensors"]

LARGEST_CODE = 15
SHIFTS = torch.arange(0, 4 * CODES_PER_WORD, 4, dtype=torch.int32)


@dataclass(frozen=True, slots=True)
class GptqTensors:
    """One weight (N out, K in): ``words`` (K / 8, N), ``scales`` and ``zeros`` (G, N), each input's group (K,)."""

    words: Tensor
    scales: Tensor
    zeros: Tensor
    groups: Tensor
    name: str

    @classmethod
    def of(cls, weight: GptqWeight, form: GptqFormat, read: Mapping[TensorEntry, Tensor]) -> "GptqTensors":
        """Take a weight from what was read of its file. Raises LoadError for an input in a group that is not there."""
        name = f"{weight.qweight.file}: the g_idx of a {list(weight.qweight.shape)} qweight"
        words, scales = read[weight.qweight], read[weight.scales].float()
        columns, num_groups = CODES_PER_WORD * len(words), len(scales)
        stored = (read[weight.qzeros][:, :, None] >> SHIFTS).flatten(1)
        zeros = stored + form.zero_offset & LARGEST_CODE
        if weight.g_idx is None:
            size = form.group_size if form.group_size > 0 else columns
            return cls(words, scales, zeros, torch.arange(columns) // size, name)
        groups = read[weight.g_idx].long()
        if not 0 <= int(groups.min()) <= int(groups.max()) < num_groups:
            raise LoadError(f"{name} names a group outside 0..{num_groups - 1}; fetch the file again")
        return cls(words, scales, zeros, groups, name)

    def order(self) -> Tensor | None:
        """Return the order (K,) int32 in which inputs of a group follow one another, or None if they do so already."""
        if bool((self.groups.diff() >= 0).all()):
            return None
        return self.groups.argsort(stable=True).to(torch.int32)

    def packed(self, rows: slice, order: Tensor | None) -> Tensor:
        """Return the codes of some outputs as the kernel wants them; ``rows`` starts at a multiple of 64."""
        return pack_words(self.words[:, rows], order)

    def kernel_scales(self, group: int) -> Tensor:
        """Return (K / group, N, 2), inputs in order. Raises LoadError where ``group`` of them do not share a scale."""
        groups = self.groups.sort().values.view(-1, group)
        if bool((groups != groups[:, :1]).any()):
            raise LoadError(f"{self.name} does not make groups of equal size; quantise the model again")
        return kernel_scales(self.scales, self.zeros)[groups[:, 0]]

    def floats(self, rows: slice) -> Tensor:
        """Return the weight of some outputs, (rows, K) float32."""
        codes = (self.words[:, None, rows] >> SHIFTS[:, None] & LARGEST_CODE).flatten(0, 1)  # (K, rows)
        scales, zeros = self.scales[:, rows], self.zeros[:, rows]
        return ((codes - zeros[self.groups]) * scales[self.groups]).t()
