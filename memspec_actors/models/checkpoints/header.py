"""Read the header of a safetensors file and check it against the file, without touching the weights."""

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from memspec_actors.errors import CheckpointError

__all__ = ["ITEM_BYTES", "FileStamp", "TensorEntry", "file_stamp", "read_header"]

# Bytes per element, by safetensors' dtype name.
ITEM_BYTES: Mapping[str, int] = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
MAX_HEADER_BYTES = 100_000_000  # the format's own limit
LENGTH_BYTES = 8


class TensorEntry(msgspec.Struct, frozen=True):
    """Locate one tensor: ``nbytes`` bytes at ``offset`` (from the start of ``file``), row-major."""

    file: Path
    offset: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]


class FileStamp(msgspec.Struct, frozen=True):
    """Recognise a file whose header was read: its size in bytes and a digest of the header."""

    size: int
    header_digest: bytes


class _RawEntry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_header(path: Path) -> tuple[dict[str, TensorEntry], FileStamp]:
    """Return the tensors that a safetensors file holds, by name, and the stamp to recognise the file by.

    Raises CheckpointError, naming the file, unless the header is whole and its tensors cover the data section exactly.
    """
    try:
        with path.open("rb") as file:
            stamp, raw = _read_raw(file, path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); give a complete model directory") from error
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        fields.pop("__metadata__", None)
        entries = {name: msgspec.json.decode(value, type=_RawEntry) for name, value in fields.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its safetensors header is corrupt ({error}); fetch the file again") from error
    _check_cover(path, entries, stamp.size - LENGTH_BYTES - len(raw))
    return {name: _place(path, LENGTH_BYTES + len(raw), entry) for name, entry in entries.items()}, stamp


def file_stamp(file: BinaryIO, path: Path) -> FileStamp:
    """Return the stamp of an open safetensors file; leaves the position after the header.

    Raises CheckpointError if it no longer starts with a header.
    """
    return _read_raw(file, path)[0]


def _read_raw(file: BinaryIO, path: Path) -> tuple[FileStamp, bytes]:
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < LENGTH_BYTES or not 2 <= length <= min(MAX_HEADER_BYTES, size - LENGTH_BYTES):
        raise CheckpointError(
            f"{path}: {size} bytes are too few for the header length it states, or it is no safetensors file; "
            "fetch the file again"
        )
    raw = file.read(length)
    if len(raw) < length:
        raise CheckpointError(f"{path}: its header ends after {len(raw)} of {length} bytes; fetch the file again")
    return FileStamp(size, hashlib.blake2b(prefix + raw, digest_size=16).digest()), raw


def _check_cover(path: Path, entries: Mapping[str, _RawEntry], data_bytes: int) -> None:
    """Check that the tensors follow one another without gap or overlap and end where the file ends."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        start, end = entry.data_offsets
        if entry.dtype not in ITEM_BYTES:
            raise CheckpointError(f"{path}: tensor {name!r} has unknown dtype {entry.dtype!r}")
        if any(size < 0 for size in entry.shape):
            raise CheckpointError(f"{path}: tensor {name!r} has the impossible shape {list(entry.shape)}")
        expected = math.prod(entry.shape) * ITEM_BYTES[entry.dtype]
        if start != position or end - start != expected:
            raise CheckpointError(
                f"{path}: tensor {name!r} of {expected} bytes is said to lie at {start}..{end}, "
                f"but the one before it ends at {position}; the header is corrupt, fetch the file again"
            )
        position = end
    if position != data_bytes:
        raise CheckpointError(
            f"{path}: the header tells of {position} bytes of weights, the file holds {data_bytes}; "
            "it is truncated or damaged, fetch it again"
        )


def _place(path: Path, data_start: int, entry: _RawEntry) -> TensorEntry:
    start, end = entry.data_offsets
    return TensorEntry(path, data_start + start, end - start, entry.dtype, entry.shape)
