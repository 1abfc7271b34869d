"""Where each tensor of a checkpoint goes in memory, as offsets and orders; needs no torch.

Tensors that run fused lie side by side: q, k, v; gate, up. A weight is placed in one of two orders. As stored,
(out, in): a load of the same dtype is then a plain read. Or transposed, (in, out), which multiplies one row up to
three times as fast on a CPU: chosen in float32 wherever the bytes pass through a staging buffer anyway.
"""

import math
from dataclasses import dataclass

from memspec_actors.models.architecture import DecoderShape, LayerNames
from memspec_actors.models.checkpoint import FLOAT_DTYPES, Checkpoint
from memspec_actors.models.header import ITEM_BYTES, TensorEntry

__all__ = ["ALIGNMENT", "RUN_DTYPE_NAMES", "Layout", "Segment", "Slot"]

ALIGNMENT = 64
RUN_DTYPE_NAMES = {"float32": "F32", "bfloat16": "BF16"}  # run dtype -> safetensors' name of it


@dataclass(frozen=True, slots=True)
class Segment:
    """Say where one stored tensor goes.

    The destination is rows ``row_start`` to ``row_start + rows`` of a (total_rows, columns) matrix that starts at byte
    ``offset``; ``transposed`` means that the matrix lies there as (columns, total_rows).
    """

    entry: TensorEntry
    dtype: str  # safetensors' name of the destination dtype
    offset: int
    row_start: int
    rows: int
    total_rows: int
    columns: int
    transposed: bool

    @property
    def direct(self) -> bool:
        """True if the file's bytes are the destination's bytes."""
        return self.entry.dtype == self.dtype and not self.transposed

    @property
    def start(self) -> int:
        """First destination byte; the rest follows on, unless transposed."""
        item_bytes = ITEM_BYTES[self.dtype]
        return self.offset + self.row_start * item_bytes * (1 if self.transposed else self.columns)


@dataclass(frozen=True, slots=True)
class Slot:
    """One run-time tensor: (rows, columns), or a vector with ``columns`` 1."""

    offset: int
    rows: int
    columns: int
    vector: bool
    transposed: bool


class Layout:
    """Hand out aligned places in the order that the forward pass uses them."""

    def __init__(self, checkpoint: Checkpoint, dtype: str, *, transposed: bool) -> None:
        self._weights = checkpoint.weights()
        self._shape = checkpoint.shape
        self._dtype = dtype
        self._transposed = transposed
        self.nbytes = 0
        self.slots: dict[str, Slot] = {}
        self.segments: list[Segment] = []

    def place_all(self) -> None:
        if self._shape is None:
            for name in self._weights:
                self._place(name)
            return
        # A tied embedding is also the head, and the head is the larger work. Untied, whole rows are only looked up.
        self._place("model.embed_tokens.weight", transposed=self._shape.tied and self._transposed)
        for index in range(self._shape.num_layers):
            self._place_layer(LayerNames(index), self._shape)
        self._place("model.norm.weight")
        if not self._shape.tied:
            self._place("lm_head.weight", transposed=self._transposed)

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
        self._place(*(f"{names[part]}.weight" for part in parts), transposed=self._transposed)
        if bias:
            self._place(*(f"{names[part]}.bias" for part in parts))

    def _place(self, *names: str, transposed: bool = False) -> None:
        entries = [self._weights[name] for name in names]
        dtype = RUN_DTYPE_NAMES[self._dtype] if entries[0].dtype in FLOAT_DTYPES else entries[0].dtype
        shape = entries[0].shape
        vector = len(shape) != 2 or self._shape is None  # the generic runner restores shapes itself
        columns = 1 if len(shape) != 2 or vector else shape[1]
        heights = [math.prod(entry.shape) // columns for entry in entries]
        total = sum(heights)
        self.slots[names[0]] = Slot(self.nbytes, total, columns, vector, transposed)
        row = 0
        for entry, rows in zip(entries, heights, strict=True):
            self.segments.append(Segment(entry, dtype, self.nbytes, row, rows, total, columns, transposed))
            row += rows
        self.nbytes += -(-total * columns * ITEM_BYTES[dtype] // ALIGNMENT) * ALIGNMENT
