"""Where stored tensors go in memory: what a load fills, and what a runner is then bound to; needs no torch."""

from dataclasses import dataclass

from memspec_actors.models.checkpoints.gptq import GptqFormat, GptqWeight
from memspec_actors.models.checkpoints.header import ITEM_BYTES, TensorEntry

__all__ = ["CodeSlot", "DequantisedSegment", "FloatSegment", "GptqSegment", "QuantisedSegment", "Segment", "Slot"]

WORD_BYTES = 4
NARROW_BYTES = 2  # scales beside codes are bfloat16


@dataclass(frozen=True, slots=True)
class Slot:
    """One run-time tensor: (rows, columns), or a vector with ``columns`` 1."""

    offset: int
    rows: int
    columns: int
    vector: bool
    transposed: bool


@dataclass(frozen=True, slots=True)
class CodeSlot:
    """One linear map in codes: (rows, columns) of them at ``offset``, then scales, then perhaps the inputs' order.

    With ``group`` 0 a code has 8 bits, and each row a bfloat16 scale. Otherwise it has 4 bits, and each ``group``
    inputs of a row share two bfloat16 numbers, scale and offset. ``ordered``: the inputs have an order of their own.
    """

    offset: int
    rows: int
    columns: int
    group: int
    ordered: bool = False

    @property
    def codes_nbytes(self) -> int:
        return self.rows * self.columns // (2 if self.group else 1)

    @property
    def scales_nbytes(self) -> int:
        return self.rows * NARROW_BYTES * (2 * self.columns // self.group if self.group else 1)

    @property
    def scales_offset(self) -> int:
        return self.offset + self.codes_nbytes

    @property
    def order_offset(self) -> int:
        return self.scales_offset + self.scales_nbytes

    @property
    def nbytes(self) -> int:
        return self.codes_nbytes + self.scales_nbytes + (self.columns * WORD_BYTES if self.ordered else 0)


@dataclass(frozen=True, slots=True)
class FloatSegment:
    """Say where one stored tensor goes that stays what it is.

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
    def entries(self) -> tuple[TensorEntry, ...]:
        return (self.entry,)

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
class QuantisedSegment:
    """A stored float weight that becomes codes while it is read."""

    entry: TensorEntry
    slot: CodeSlot

    @property
    def entries(self) -> tuple[TensorEntry, ...]:
        return (self.entry,)


@dataclass(frozen=True, slots=True)
class GptqSegment:
    """A GPTQ weight that stays in codes, in the order that the kernel wants."""

    weight: GptqWeight
    form: GptqFormat
    slot: CodeSlot

    @property
    def entries(self) -> tuple[TensorEntry, ...]:
        return self.weight.entries


@dataclass(frozen=True, slots=True)
class DequantisedSegment:
    """A GPTQ weight that becomes floats while it is read: those of ``slot``, which it fills alone."""

    weight: GptqWeight
    form: GptqFormat
    slot: Slot
    dtype: str  # safetensors' name of the destination dtype

    @property
    def entries(self) -> tuple[TensorEntry, ...]:
        return self.weight.entries


Segment = FloatSegment | QuantisedSegment | GptqSegment | DequantisedSegment
