"""Run linear layers of a transformers model on codes instead of floats."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.generic.build import build_model, stand_ins
from memspec_actors.models.kernels.linear import WeightPart, map_part

__all__ = ["CodedLinear", "Quantisable", "find_quantisable", "put_codes"]


class Quantisable(NamedTuple):
    """Stored weights, by name, that are a linear layer and nothing else; ``head`` is the output layer among them."""

    names: frozenset[str] = frozenset()
    head: str | None = None


class CodedLinear(nn.Module):
    """Stand in for a linear layer; maps (..., in) to (..., out) in the dtype of what comes in."""

    def __init__(self, part: WeightPart, bias: Tensor | None) -> None:
        super().__init__()
        self._part = part
        self._bias = bias

    def forward(self, inputs: Tensor) -> Tensor:
        mapped = map_part(self._part, inputs.reshape(-1, inputs.shape[-1])).to(inputs.dtype)
        return (mapped if self._bias is None else mapped + self._bias).view(*inputs.shape[:-1], -1)


def find_quantisable(checkpoint: Checkpoint, dtype: torch.dtype) -> Quantisable:
    """Find what can run on codes, without memory for weights. Raises CheckpointError as `build_model` does."""
    tensors = stand_ins(checkpoint, dtype)
    model = build_model(checkpoint, dtype, tensors)
    found = dict(_linear_layers(model, tensors))
    head = model.get_output_embeddings()
    return Quantisable(
        frozenset(found), next((name for name, path in found.items() if model.get_submodule(path) is head), None)
    )


def put_codes(model: Any, tensors: Mapping[str, Tensor], parts: Mapping[str, WeightPart]) -> None:
    """Replace linear layers whose weights, of the ``tensors`` the model was built around, are in codes (``parts``)."""
    for name, path in list(_linear_layers(model, {name: tensors[name] for name in parts})):
        parent, _, own = path.rpartition(".")
        bias = model.get_submodule(path).bias
        setattr(model.get_submodule(parent), own, CodedLinear(parts[name], None if bias is None else bias.detach()))


def _linear_layers(model: Any, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the name of a stored weight and the path of the one linear layer that uses it."""
    names = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    uses: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            uses[parameter.data_ptr()] = uses.get(parameter.data_ptr(), 0) + 1
    for path, module in model.named_modules():
        if type(module) is nn.Linear and uses[module.weight.data_ptr()] == 1 and module.weight.data_ptr() in names:
            yield names[module.weight.data_ptr()], path
