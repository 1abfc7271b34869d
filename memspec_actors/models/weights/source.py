"""Read stored tensors of one checkpoint: in file order, in chunks, each file checked when it is opened."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from memspec_actors.errors import CheckpointError, LoadError
from memspec_actors.models.checkpoints.header import FileStamp, TensorEntry, file_stamp
from memspec_actors.models.weights.typed_memory import TORCH_DTYPES

__all__ = ["WeightSource"]


class WeightSource:
    """Read from ``files``, at most ``chunk_bytes`` at once; ``on_chunk`` may raise to end it, before and after each.

    A context manager: what it opened is closed at its end.
    """

    def __init__(self, files: Mapping[Path, FileStamp], chunk_bytes: int, on_chunk: Callable[[int], None]) -> None:
        self._stamps = files
        self._chunk_bytes = chunk_bytes
        self._on_chunk = on_chunk
        self._opened: dict[Path, FileIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "WeightSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def read_into(self, entry: TensorEntry, memory: Tensor) -> None:
        """Fill ``memory`` (uint8, 1-D) with a tensor's bytes."""
        file = self._at(entry)
        for start in range(0, entry.nbytes, self._chunk_bytes):
            self._read(file, entry, memory[start : min(start + self._chunk_bytes, entry.nbytes)])

    def pieces(self, entry: TensorEntry, take: Callable[[int], Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Yield a tensor's bytes in chunks, each with its first byte's number, in memory that ``take`` gives for it."""
        file = self._at(entry)
        for start in range(0, entry.nbytes, self._chunk_bytes):
            chunk = take(min(self._chunk_bytes, entry.nbytes - start))
            self._read(file, entry, chunk)
            yield start, chunk

    def whole(self, entry: TensorEntry) -> Tensor:
        """Return a tensor in memory of its own."""
        memory = torch.empty(entry.nbytes, dtype=torch.uint8)
        self.read_into(entry, memory)
        return memory.view(TORCH_DTYPES[entry.dtype]).view(entry.shape)

    def rows(self, entry: TensorEntry, num_rows: int, multiple: int = 1) -> Iterator[tuple[int, Tensor]]:
        """Yield a tensor as blocks of whole rows, each with its first row's number, in memory that is used again.

        All blocks but the last have a ``multiple`` of rows.
        """
        if not entry.nbytes:
            return
        file = self._at(entry)
        row_bytes = entry.nbytes // num_rows
        rows_per_chunk = max(1, self._chunk_bytes // row_bytes // multiple) * multiple
        staging = torch.empty(min(rows_per_chunk, num_rows) * row_bytes, dtype=torch.uint8)
        for row in range(0, num_rows, rows_per_chunk):
            chunk = staging[: min(rows_per_chunk, num_rows - row) * row_bytes]
            self._read(file, entry, chunk)
            yield row, chunk.view(TORCH_DTYPES[entry.dtype]).view(-1, row_bytes // TORCH_DTYPES[entry.dtype].itemsize)

    def pause(self) -> None:
        """Let a load that is busy with what it has read be ended."""
        self._on_chunk(0)

    def _at(self, entry: TensorEntry) -> FileIO:
        if entry.file not in self._opened:
            self._opened[entry.file] = self._stack.enter_context(_open(entry.file, self._stamps[entry.file]))
        file = self._opened[entry.file]
        file.seek(entry.offset)
        return file

    def _read(self, file: FileIO, entry: TensorEntry, memory: Tensor) -> None:
        self._on_chunk(0)
        bytes_left = memory.numpy().data
        while len(bytes_left):
            try:
                count = file.readinto(bytes_left)
            except OSError as error:
                raise LoadError(f"{entry.file}: cannot be read ({error.strerror})") from error
            if not count:
                raise LoadError(f"{entry.file}: ends {len(bytes_left)} bytes early; fetch the file again")
            bytes_left = bytes_left[count:]
        self._on_chunk(memory.numel())


def _open(path: Path, stamp: FileStamp) -> FileIO:
    """Open a weight file unbuffered, provided that it still is the one that was checked."""
    try:
        file = FileIO(path)
        try:
            if file_stamp(file, path) != stamp:
                raise LoadError(f"{path}: changed since it was checked; open the checkpoint again")
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise LoadError(f"{path}: cannot be read ({error.strerror})") from error
    except CheckpointError as error:
        raise LoadError(str(error)) from error
    return file
