"""Fill memory with a checkpoint's weights: sequential, in chunks, cancellable. Blocking: call it in a worker thread."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from memspec_actors.models.devices.transfer import CHUNK_BYTES, Transfer
from memspec_actors.models.weights.filling import convey, fill
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.segments import Segment
from memspec_actors.models.weights.source import WeightSource

__all__ = ["ByteProgress", "Cancelled", "LoadReport", "Throttle", "load_into"]

Cancelled = Callable[[], bool]  # whether a load was given up
ByteProgress = Callable[[int, int], None]  # (bytes done, bytes in all)

HOST_CHUNK_BYTES = 1 << 20  # read at once straight into the host's memory
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

    def wait(self, nbytes: int, cancelled: Cancelled) -> None:
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
    chunk_bytes: int | None = None,
    cancelled: Cancelled = lambda: False,
    progress: ByteProgress = lambda done, total: None,
    throttle: Throttle | None = None,
    transfer: Transfer | None = None,
) -> LoadReport:
    """Read a plan's weights into ``view`` (uint8, 1-D); ``progress(done, total)`` counts file bytes, once a chunk.

    ``cancelled`` is asked before every chunk; a cancelled load leaves the view half filled. Weights that are quantised
    or repacked pass through memory beside the view, about as much as the largest of them. A view on a device is
    reached by a ``transfer``; however the load ends, no copy is on its way any more. Raises LoadError naming the file
    if it is gone, changed since it was checked, or ends early.
    """
    started = time.perf_counter()
    done, stopped = 0, False

    def on_chunk(nbytes: int) -> None:
        nonlocal done
        if not nbytes:
            if cancelled():
                raise _Cancelled
            return
        if throttle is not None:
            throttle.wait(nbytes, cancelled)
        done += nbytes
        progress(done, plan.file_nbytes)

    chunk_bytes = chunk_bytes or (HOST_CHUNK_BYTES if transfer is None else CHUNK_BYTES)
    try:
        with WeightSource(plan.checkpoint.files, chunk_bytes, on_chunk) as source:
            if transfer is None:
                for segment in plan.segments:
                    fill(view, segment, source)
            else:
                _convey_all(plan.segments, view, source, transfer)
    except _Cancelled:
        stopped = True
    return LoadReport(done, time.perf_counter() - started, throttle is not None, stopped)


def _convey_all(segments: Iterable[Segment], view: Tensor, source: WeightSource, transfer: Transfer) -> None:
    transfer.begin()
    try:
        for segment in segments:
            convey(view, segment, source, transfer)
    finally:
        transfer.finish()
