"""Fill memory with a checkpoint's weights: sequential, in chunks, cancellable. Blocking: call it in a worker thread."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from memspec_actors.errors import CheckpointError, LoadError
from memspec_actors.models.header import FileStamp, file_stamp
from memspec_actors.models.layout import Segment
from memspec_actors.models.plan import TORCH_DTYPES, LoadPlan

__all__ = ["LoadReport", "Throttle", "load_into"]

MAX_SLEEP_S = 0.01  # how long a cancellation may go unnoticed under a throttle


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Tell how a load went: bytes read, time taken, whether a throttle slowed it, whether it was cancelled."""

    nbytes: int
    wall_s: float
    emulated: bool
    cancelled: bool


class Throttle:
    """Emulate storage of ``bytes_per_second``, shared by all loads that use this object."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not bytes_per_second > 0:
            raise ValueError(f"bytes_per_second is {bytes_per_second}; it must be > 0")
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait(self, nbytes: int, cancelled: Callable[[], bool]) -> None:
        """Return when such storage would have delivered the next ``nbytes``, or soon after a cancellation."""
        with self._lock:
            self._free_at = max(self._free_at, self._clock()) + nbytes / self.bytes_per_second
            due = self._free_at
        while (left := due - self._clock()) > 0 and not cancelled():
            self._sleep(min(left, MAX_SLEEP_S))


class _Cancelled(Exception):
    """Unwinds a load; never leaves this module."""


def load_into(
    plan: LoadPlan,
    view: Tensor,
    *,
    chunk_bytes: int = 1 << 20,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    throttle: Throttle | None = None,
) -> LoadReport:
    """Read a plan's weights into ``view`` (uint8, 1-D); ``progress(done, total)`` counts file bytes, once a chunk.

    ``cancelled`` is asked before every chunk; a cancelled load leaves the view half filled. Raises LoadError naming the
    file if it is gone, changed since it was checked, or ends early.
    """
    started = time.perf_counter()
    load = _Load(plan, view, chunk_bytes, cancelled, progress, throttle)
    try:
        load.run()
        stopped = False
    except _Cancelled:
        stopped = True
    return LoadReport(load.done, time.perf_counter() - started, throttle is not None, stopped)


@dataclass(slots=True)
class _Load:
    plan: LoadPlan
    view: Tensor
    chunk_bytes: int
    cancelled: Callable[[], bool]
    progress: Callable[[int, int], None]
    throttle: Throttle | None
    done: int = 0

    def run(self) -> None:
        for path, stamp in self.plan.checkpoint.files.items():
            segments = [segment for segment in self.plan.segments if segment.entry.file == path]
            if segments:
                with _opened(path, stamp) as file:
                    for segment in segments:
                        self._segment(file, segment)

    def _segment(self, file: FileIO, segment: Segment) -> None:
        file.seek(segment.entry.offset)
        if segment.direct:
            memory = self.view.numpy().data[segment.start : segment.start + segment.entry.nbytes]
            for start in range(0, len(memory), self.chunk_bytes):
                self._read(file, memory[start : start + self.chunk_bytes], segment)
        elif segment.entry.nbytes:
            self._convert(file, segment)

    def _convert(self, file: FileIO, segment: Segment) -> None:
        """Read whole rows into a small buffer, and put them where they belong in the run dtype and order."""
        row_bytes = segment.entry.nbytes // segment.rows
        rows_per_chunk = max(1, self.chunk_bytes // row_bytes)
        staging = torch.empty(min(rows_per_chunk, segment.rows) * row_bytes, dtype=torch.uint8)
        target = _destination(self.view, segment)
        for row in range(0, segment.rows, rows_per_chunk):
            rows = min(rows_per_chunk, segment.rows - row)
            chunk = staging[: rows * row_bytes]
            self._read(file, chunk.numpy().data, segment)
            target[row : row + rows].copy_(chunk.view(TORCH_DTYPES[segment.entry.dtype]).view(rows, segment.columns))

    def _read(self, file: FileIO, memory: memoryview, segment: Segment) -> None:
        if self.cancelled():
            raise _Cancelled
        filled = 0
        while filled < len(memory):
            count = file.readinto(memory[filled:])
            if not count:
                raise LoadError(f"{segment.entry.file}: ends {len(memory) - filled} bytes early; fetch the file again")
            filled += count
        if self.throttle is not None:
            self.throttle.wait(filled, self.cancelled)
        self.done += filled
        self.progress(self.done, self.plan.file_nbytes)


def _destination(view: Tensor, segment: Segment) -> Tensor:
    """Return the (rows, columns) part of the destination matrix that a stored tensor fills."""
    dtype = TORCH_DTYPES[segment.dtype]
    size = segment.total_rows * segment.columns * dtype.itemsize
    flat = view[segment.offset : segment.offset + size].view(dtype)
    matrix = (
        flat.view(segment.columns, segment.total_rows).t()
        if segment.transposed
        else flat.view(segment.total_rows, segment.columns)
    )
    return matrix[segment.row_start : segment.row_start + segment.rows]


@contextmanager
def _opened(path: Path, stamp: FileStamp) -> Iterator[FileIO]:
    """Open a weight file unbuffered, provided that it still is the one that was checked."""
    try:
        with FileIO(path) as file:
            if file_stamp(file, path) != stamp:
                raise LoadError(f"{path}: changed since it was checked; open the checkpoint again")
            yield file
    except OSError as error:
        raise LoadError(f"{path}: cannot be read ({error.strerror})") from error
    except CheckpointError as error:
        raise LoadError(str(error)) from error
