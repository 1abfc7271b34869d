"""CUDA: copies from pinned memory on a stream of their own, and steps recorded as graphs.

All computing, decoding and warming alike, goes through the device's default stream, so it runs in the order in which it
was handed over. Only loads run beside it.
"""

import logging
from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor

from memspec_actors.errors import first_line
from memspec_actors.models.devices.device import DeviceMemory

__all__ = ["CudaCopier", "CudaDevice"]

_LOGGER = logging.getLogger(__name__)

TRIAL_RUNS = 3  # before a step is recorded: libraries choose their kernels and take their workspaces


class CudaDevice:
    """One CUDA device."""

    def __init__(self, index: int) -> None:
        self.torch_device = torch.device("cuda", index)
        self._recording_lock = Lock()
        # One stream for all recordings: each would get workspaces of its own.
        self._recording = torch.cuda.Stream(self.torch_device)  # type: ignore[no-untyped-call]

    @property
    def memory(self) -> DeviceMemory:
        """Memory as it stands now; what torch keeps for reuse counts as free."""
        free, total = torch.cuda.mem_get_info(self.torch_device)
        kept = torch.cuda.memory_reserved(self.torch_device) - torch.cuda.memory_allocated(self.torch_device)
        return DeviceMemory(free + kept, total)

    def copier(self) -> "CudaCopier":
        return CudaCopier(self.torch_device)

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        """Record a step as a graph; replaying it costs one launch. A step that cannot be recorded is returned as it is.

        Recorded without `torch.cuda.graph`, which would wait for the whole device, the load under way included, and
        forbid other threads what only the recording one must not do.
        """
        computing = torch.cuda.default_stream(self.torch_device)
        with self._recording_lock, torch.cuda.device(self.torch_device):
            self._recording.wait_stream(computing)
            try:
                return self._recorded(step, rewind).replay
            except RuntimeError as error:  # of whatever the driver or a kernel does not allow
                reason = first_line(error)
                _LOGGER.warning("a drafting step could not be recorded (%s): drafts are slower without", reason)
                return step
            finally:
                computing.wait_stream(self._recording)

    def _recorded(self, step: Callable[[], None], rewind: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._recording):
            for _ in range(TRIAL_RUNS):
                rewind()
                step()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                step()
            finally:
                graph.capture_end()
        return graph


class CudaCopier:
    """Copy on a stream of its own; waiting for a copy leaves the processor to others."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def host_buffer(self, nbytes: int) -> Tensor:
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def begin(self) -> None:
        self._stream.wait_stream(torch.cuda.default_stream(self._device))

    def copy(self, host: Tensor, place: Tensor) -> torch.cuda.Event:
        with torch.cuda.stream(self._stream):
            place.copy_(host, non_blocking=True)
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record()
        return done
