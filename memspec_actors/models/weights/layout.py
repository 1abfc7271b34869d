"""Where each tensor of a checkpoint goes in memory, as offsets and orders; needs no torch.

Tensors that run fused lie side by side: q, k, v; gate, up. A weight is placed in one of two orders. As stored,
(out, in): a load of the same dtype is then a plain read. Or transposed, (in, out), which multiplies one row up to
three times as fast on a CPU: chosen in float32 wherever the bytes pass through a staging buffer anyway. Weights in
codes are placed one by one, for the kernels' blocks of rows must not straddle two of them.
"""

import math
from typing import NamedTuple

from memspec_actors.models.checkpoints.architecture import DecoderShape, LayerNames, expected_tensors
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.checkpoints.gptq import GptqFormat, GptqWeight, gptq_weight
from memspec_actors.models.checkpoints.header import ITEM_BYTES
from memspec_actors.models.dtypes import FLOAT_DTYPES, RUN_DTYPE_NAMES, CodeName, RunDtypeName
from memspec_actors.models.kernels.sizes import INT8_COLUMNS, int4_group
from memspec_actors.models.weights.segments import (
    CodeSlot,
    DequantisedSegment,
    FloatSegment,
    GptqSegment,
    QuantisedSegment,
    Segment,
    Slot,
)

__all__ = ["ALIGNMENT", "Coding", "Layout"]

ALIGNMENT = 64
OWN_GROUP = 64  # what a weight that is quantised on loading gets: 4.5 bits a weight
HEAD = "lm_head.weight"


class Coding(NamedTuple):
    """Say what float weights of linear maps become; where transformers runs the model, only those of ``names`` do.

    The ``head`` gets 8 bits.
    """

    codes: CodeName | None = None
    names: frozenset[str] = frozenset()
    head: str | None = HEAD


class Layout:
    """Hand out aligned places in the order that the forward pass uses them.

    ``packed`` says that GPTQ's codes stay codes, for a kernel works.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: RunDtypeName,
        *,
        transposed: bool,
        coding: Coding,
        packed: bool = False,
    ) -> None:
        self._weights = checkpoint.weights()
        self._shape = checkpoint.shape
        shapes = {name: entry.shape for name, entry in self._weights.items()}
        self._matrices = shapes if self._shape is None else expected_tensors(self._shape)
        self._form = checkpoint.gptq
        self._dtype = RUN_DTYPE_NAMES[dtype]
        self._transposed = transposed
        self._coding = coding
        self._packed = packed
        self.nbytes = 0
        self.slots: dict[str, Slot | CodeSlot] = {}
        self.segments: list[Segment] = []

    def place_all(self) -> None:
        if self._shape is None:
            for name in self._weights:
                if name in self._coding.names:
                    self._place_to_quantise(name)
                else:
                    self._place(name)
            return
        # A tied embedding is also the head, and the head is the larger work. Untied, whole rows are only looked up.
        self._place("model.embed_tokens.weight", transposed=self._shape.tied and self._transposed)
        for index in range(self._shape.num_layers):
            self._place_layer(LayerNames(index), self._shape)
        self._place("model.norm.weight")
        if not self._shape.tied:
            self._place_weights(HEAD)

    def _place_layer(self, names: LayerNames, shape: DecoderShape) -> None:
        self._place(f"{names['input_layernorm']}.weight")
        self._place_linear(names, ("q_proj", "k_proj", "v_proj"), bias=shape.qkv_bias)
        for norm in ("q_norm", "k_norm") if shape.qk_norm else ():
            self._place(f"{names[norm]}.weight")
        self._place_linear(names, ("o_proj",), bias=shape.out_bias)
        self._place(f"{names['post_attention_layernorm']}.weight")
        self._place_linear(names, ("gate_proj", "up_proj"), bias=shape.mlp_bias)
        self._place_linear(names, ("down_proj",), bias=shape.mlp_bias)

    def _place_linear(self, names: LayerNames, parts: tuple[str, ...], *, bias: bool) -> None:
        self._place_weights(*(f"{names[part]}.weight" for part in parts))
        if bias or all(f"{names[part]}.bias" in self._weights for part in parts):
            self._place(*(f"{names[part]}.bias" for part in parts))

    def _place_weights(self, *names: str) -> None:
        quantised = {name: gptq_weight(name, self._weights) for name in names}
        if self._coding.codes is None and not any(quantised.values()):
            self._place(*names, transposed=self._transposed)
            return
        for name, weight in quantised.items():
            if weight is None:
                self._place_to_quantise(name)
            else:
                assert self._form is not None, "an opened checkpoint says how its codes are read"
                self._place_gptq(name, weight, self._form)

    def _place_to_quantise(self, name: str) -> None:
        """Place a float weight as codes, or as it is where no kernel takes its sizes."""
        rows, columns = self._matrices[name]
        codes, _, head = self._coding
        group = int4_group(rows, columns, OWN_GROUP) if codes == "int4" and name != head else None
        if group is None and codes is not None and columns % INT8_COLUMNS == 0:
            group = 0
        if group is None:
            self._place(name, transposed=self._transposed)
            return
        slot = CodeSlot(self.nbytes, rows, columns, group)
        self.segments.append(QuantisedSegment(self._weights[name], slot))
        self._take(name, slot, slot.nbytes)

    def _place_gptq(self, name: str, weight: GptqWeight, form: GptqFormat) -> None:
        rows, columns = self._matrices[name]
        group = int4_group(rows, columns, form.group_size) if self._packed else None
        if group is not None:
            slot = CodeSlot(self.nbytes, rows, columns, group, ordered=form.act_order and weight.g_idx is not None)
            self.segments.append(GptqSegment(weight, form, slot))
            self._take(name, slot, slot.nbytes)
            return
        plain = Slot(self.nbytes, rows, columns, False, self._transposed)
        self.segments.append(DequantisedSegment(weight, form, plain, self._dtype))
        self._take(name, plain, rows * columns * ITEM_BYTES[self._dtype])

    def _place(self, *names: str, transposed: bool = False) -> None:
        entries = [self._weights[name] for name in names]
        dtype = self._dtype if entries[0].dtype in FLOAT_DTYPES else entries[0].dtype
        shape = entries[0].shape
        vector = len(shape) != 2 or self._shape is None  # the generic runner restores shapes itself
        columns = 1 if vector else shape[1]
        heights = [math.prod(entry.shape) // columns for entry in entries]
        total = sum(heights)
        row = 0
        for entry, rows in zip(entries, heights, strict=True):
            self.segments.append(FloatSegment(entry, dtype, self.nbytes, row, rows, total, columns, transposed))
            row += rows
        self._take(names[0], Slot(self.nbytes, total, columns, vector, transposed), total * columns * ITEM_BYTES[dtype])

    def _take(self, name: str, slot: Slot | CodeSlot, nbytes: int) -> None:
        self.slots[name] = slot
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
