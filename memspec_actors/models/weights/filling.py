"""Bring what a plan's segment names from storage into its place: read, convert, quantise, repack.

`fill` writes to memory of the host. `convey` reaches a device's, by way of a transfer.
"""

from collections.abc import Iterator
from typing import assert_never

import torch
from torch import Tensor

from memspec_actors.models.devices.transfer import Transfer
from memspec_actors.models.weights.code_memory import CodeMemory
from memspec_actors.models.weights.gptq_tensors import GptqTensors
from memspec_actors.models.weights.segments import (
    DequantisedSegment,
    FloatSegment,
    GptqSegment,
    QuantisedSegment,
    Segment,
)
from memspec_actors.models.weights.source import WeightSource
from memspec_actors.models.weights.typed_memory import TORCH_DTYPES, matrix

__all__ = ["convey", "fill"]

BLOCK_ROWS = 64  # the int4 kernel keeps at most so many outputs together
ROWS_AT_ONCE = 8 * BLOCK_ROWS  # converted between two looks at whether the load is still wanted


def fill(view: Tensor, segment: Segment, source: WeightSource) -> None:
    """Fill a segment's part of ``view`` (uint8, 1-D). Raises LoadError naming the file."""
    match segment:
        case FloatSegment():
            _fill_floats(view, segment, source)
        case QuantisedSegment():
            memory = CodeMemory.of(view, segment.slot)
            for row, chunk in source.rows(segment.entry, segment.slot.rows, multiple=BLOCK_ROWS):
                memory.quantise(row, chunk)
        case GptqSegment():
            _fill_codes(view, segment, source)
        case DequantisedSegment():
            _fill_dequantised(view, segment, source)
        case _:
            assert_never(segment)


def convey(view: Tensor, segment: Segment, source: WeightSource, transfer: Transfer) -> None:
    """Fill a segment's part of ``view`` (uint8, 1-D) on a device. Raises LoadError naming the file.

    The plan is one for a device: nothing is in codes, nothing transposed.
    """
    match segment:
        case FloatSegment():
            _convey_floats(view[segment.start :], segment, source, transfer)
        case DequantisedSegment():
            tensors, dtype = _tensors(segment, source), TORCH_DTYPES[segment.dtype]
            place = view[segment.slot.offset :]
            row_bytes = segment.slot.columns * dtype.itemsize
            for rows in _blocks(segment.slot.rows, source):
                _send_rows(place, rows.start * row_bytes, tensors.floats(rows), dtype, transfer)
        case QuantisedSegment() | GptqSegment():
            raise AssertionError("codes are laid out for the CPU's kernels")
        case _:
            assert_never(segment)


def _convey_floats(place: Tensor, segment: FloatSegment, source: WeightSource, transfer: Transfer) -> None:
    if segment.direct:
        for start, chunk in source.pieces(segment.entry, transfer.take):
            transfer.send(chunk, place[start : start + len(chunk)])
        return
    dtype = TORCH_DTYPES[segment.dtype]
    for row, chunk in source.rows(segment.entry, segment.rows):
        _send_rows(place, row * segment.columns * dtype.itemsize, chunk, dtype, transfer)


def _send_rows(place: Tensor, start: int, rows: Tensor, dtype: torch.dtype, transfer: Transfer) -> None:
    """Convert rows on the host and send them to byte ``start`` of ``place``."""
    host = transfer.take(rows.numel() * dtype.itemsize)
    host.view(dtype).view(rows.shape).copy_(rows)
    transfer.send(host, place[start : start + len(host)])


def _fill_floats(view: Tensor, segment: FloatSegment, source: WeightSource) -> None:
    if segment.direct:
        source.read_into(segment.entry, view[segment.start : segment.start + segment.entry.nbytes])
        return
    target = matrix(
        view,
        segment.offset,
        segment.total_rows,
        segment.columns,
        TORCH_DTYPES[segment.dtype],
        transposed=segment.transposed,
    )
    for row, chunk in source.rows(segment.entry, segment.rows):
        start = segment.row_start + row
        target[start : start + len(chunk)].copy_(chunk)


def _fill_codes(view: Tensor, segment: GptqSegment, source: WeightSource) -> None:
    memory = CodeMemory.of(view, segment.slot)
    tensors = _tensors(segment, source)
    order = memory.arrange(tensors)
    for rows in _blocks(segment.slot.rows, source):
        memory.codes[rows] = tensors.packed(rows, order)


def _fill_dequantised(view: Tensor, segment: DequantisedSegment, source: WeightSource) -> None:
    slot, dtype = segment.slot, TORCH_DTYPES[segment.dtype]
    target = matrix(view, slot.offset, slot.rows, slot.columns, dtype, transposed=slot.transposed)
    tensors = _tensors(segment, source)
    for rows in _blocks(slot.rows, source):
        target[rows].copy_(tensors.floats(rows))


def _tensors(segment: GptqSegment | DequantisedSegment, source: WeightSource) -> GptqTensors:
    read = {entry: source.whole(entry) for entry in segment.entries}
    return GptqTensors.of(segment.weight, segment.form, read)


def _blocks(num_rows: int, source: WeightSource) -> Iterator[slice]:
    for start in range(0, num_rows, ROWS_AT_ONCE):
        source.pause()
        yield slice(start, min(start + ROWS_AT_ONCE, num_rows))
