"""Loaded memory seen as a model's weights: views, nothing is copied but what runs on second copies."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.models.checkpoints.architecture import DecoderShape, LayerNames
from memspec_actors.models.checkpoints.header import TensorEntry
from memspec_actors.models.devices.heap import give_back_freed
from memspec_actors.models.dtypes import FLOAT_DTYPES
from memspec_actors.models.kernels.linear import LinearMap, WeightPart
from memspec_actors.models.kernels.packing import pack
from memspec_actors.models.lean.weights import LayerWeights, ModelWeights
from memspec_actors.models.weights.code_memory import CodeMemory
from memspec_actors.models.weights.segments import CodeSlot, Slot
from memspec_actors.models.weights.typed_memory import TORCH_DTYPES, matrix

__all__ = ["WeightViews"]


@dataclass(frozen=True, slots=True)
class WeightViews:
    """See the slots of a plan, which names them by their first tensors, in the memory ``view`` (uint8, 1-D).

    Floats are of ``dtype``. With ``packs`` linear maps get oneDNN's copy of their weights, too.
    """

    view: Tensor
    slots: Mapping[str, Slot | CodeSlot]
    dtype: torch.dtype
    packs: bool

    def stored(self, entries: Mapping[str, TensorEntry]) -> dict[str, Tensor]:
        """Return all tensors of a checkpoint that are not in codes, in the shapes they are stored in."""
        tensors = {}
        for name, entry in entries.items():
            if not isinstance(self.slots[name], CodeSlot):
                dtype = self.dtype if entry.dtype in FLOAT_DTYPES else TORCH_DTYPES[entry.dtype]
                tensors[name] = self._tensor(name, dtype).reshape(entry.shape)
        return tensors

    def coded(self) -> dict[str, WeightPart]:
        """Return all weights in codes."""
        return {name: self._part(name) for name, slot in self.slots.items() if isinstance(slot, CodeSlot)}

    def model(self, shape: DecoderShape) -> ModelWeights:
        """Return the weights of a Llama-like model."""
        # The largest first: it is rearranged by way of a copy, for which there is room as long as the others wait.
        head = self._map("model.embed_tokens" if shape.tied else "lm_head")
        layers = [self._layer(LayerNames(index), shape) for index in range(shape.num_layers)]
        return ModelWeights(
            embedding=self._floats("model.embed_tokens").t(), layers=layers, norm=self._floats("model.norm"), head=head
        )

    def _layer(self, names: LayerNames, shape: DecoderShape) -> LayerWeights:
        return LayerWeights(
            input_norm=self._floats(names["input_layernorm"]),
            qkv=self._map(names["q_proj"], names["k_proj"], names["v_proj"]),
            q_norm=self._floats(names["q_norm"]) if shape.qk_norm else None,
            k_norm=self._floats(names["k_norm"]) if shape.qk_norm else None,
            out=self._map(names["o_proj"]),
            post_norm=self._floats(names["post_attention_layernorm"]),
            gate_up=self._map(names["gate_proj"], names["up_proj"]),
            down=self._map(names["down_proj"]),
        )

    def _map(self, *modules: str) -> LinearMap:
        """Return the map of modules side by side; floats share the first one's slot, codes have one each."""
        bias = f"{modules[0]}.bias"
        parts = [self._part(f"{each}.weight") for each in modules if f"{each}.weight" in self.slots]
        return LinearMap(parts, self._tensor(bias, self.dtype) if bias in self.slots else None)

    def _part(self, name: str) -> WeightPart:
        slot = self.slots[name]
        if isinstance(slot, CodeSlot):
            return CodeMemory.of(self.view, slot).part()
        part = WeightPart(self._tensor(name, self.dtype))
        if not self.packs:
            return part
        packed = pack(part)
        give_back_freed()  # oneDNN passes through copies; kept, they would add up to another half of the model
        return packed

    def _floats(self, module: str) -> Tensor:
        return self._tensor(f"{module}.weight", self.dtype)

    def _tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        """Return a vector, or a weight as (in, out) whatever its order in memory."""
        slot = self.slots[name]
        assert isinstance(slot, Slot), f"{name} is in codes"
        lying = matrix(self.view, slot.offset, slot.rows, slot.columns, dtype, transposed=slot.transposed)
        return lying.flatten() if slot.vector else lying.t()
