"""Bring bytes from files into a device's memory, by way of host memory that is filled and copied in turns."""

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["CHUNK_BYTES", "Copier", "Copy", "Transfer"]

CHUNK_BYTES = 4 << 20  # of a file, copied at once: few copies to start, and yet a load ends soon when told to
NUM_BUFFERS = 2  # one is filled while the other is copied


class Copy(Protocol):
    """A copy that has been begun."""

    def synchronize(self) -> None:
        """Return when it is done."""
        ...


class Copier(Protocol):
    """Copy from host to device beside the device's other work."""

    def host_buffer(self, nbytes: int) -> Tensor:
        """Return host memory (uint8, 1-D) that can be copied from."""
        ...

    def begin(self) -> None:
        """Let the copies that follow wait for all work that the device has been given so far, and for no other."""
        ...

    def copy(self, host: Tensor, place: Tensor) -> Copy:
        """Begin to copy ``host`` to ``place``; ``host`` stays as it is until that is done."""
        ...


class Transfer:
    """Fill places of a device's memory, load after load; one load at a time.

    Call `begin`; then for each chunk `take` host memory, fill it and `send` it; at the end, however it comes about,
    `finish`. The host then knows that everything has arrived, so whatever work it gives the device afterwards finds it
    there, in whatever stream.
    """

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._buffers = [torch.empty(0, dtype=torch.uint8)] * NUM_BUFFERS
        self._copies: list[Copy | None] = [None] * NUM_BUFFERS
        self._turn = 0

    def begin(self) -> None:
        """Prepare to write where earlier tenants' work may still be reading: it was given to the device before."""
        self._copier.begin()

    def take(self, nbytes: int) -> Tensor:
        """Return host memory (uint8, 1-D) to fill, once its last copy is done."""
        self._wait(self._turn)
        if self._buffers[self._turn].numel() < nbytes:
            self._buffers[self._turn] = self._copier.host_buffer(max(nbytes, CHUNK_BYTES))
        return self._buffers[self._turn][:nbytes]

    def send(self, host: Tensor, place: Tensor) -> None:
        """Begin to copy what was taken last to ``place``, uint8 of the same size."""
        self._copies[self._turn] = self._copier.copy(host, place)
        self._turn = (self._turn + 1) % NUM_BUFFERS

    def finish(self) -> None:
        """Wait for the copies on their way."""
        for turn in range(NUM_BUFFERS):
            self._wait(turn)

    def _wait(self, turn: int) -> None:
        copy, self._copies[turn] = self._copies[turn], None
        if copy is not None:
            copy.synchronize()
