"""The memory that all draft weights live in: one buffer, allocated once, on the device that drafts run on."""

from torch import Tensor

from memspec_actors.models.devices.device import HOST, Device, new_memory

__all__ = ["WeightArena"]


class WeightArena:
    """Hold ``nbytes`` bytes; who may use which part is decided elsewhere."""

    def __init__(self, nbytes: int, device: Device = HOST) -> None:
        if nbytes < 0:
            raise ValueError(f"nbytes is {nbytes}; it must be >= 0")
        self.device = device
        self._buffer = new_memory(nbytes, device)

    @property
    def nbytes(self) -> int:
        return self._buffer.numel()

    def view(self, offset: int, nbytes: int) -> Tensor:
        """Return bytes ``offset`` to ``offset + nbytes`` as a uint8 tensor on the same memory.

        Raises ValueError if they do not lie in the arena.
        """
        if not 0 <= offset <= offset + nbytes <= self.nbytes:
            raise ValueError(f"bytes {offset}..{offset + nbytes} do not lie in the arena of {self.nbytes} bytes")
        return self._buffer[offset : offset + nbytes]
