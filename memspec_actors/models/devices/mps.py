"""Apple's MPS: memory is shared with the processor, so a plain copy will do; there are no graphs to record."""

from collections.abc import Callable

import torch
from torch import Tensor

from memspec_actors.models.devices.device import DeviceMemory

__all__ = ["MpsCopier", "MpsDevice"]


class MpsDevice:
    """The GPU of an Apple computer."""

    torch_device = torch.device("mps")

    @property
    def memory(self) -> DeviceMemory:
        """Memory as Metal recommends to use it; what torch keeps for reuse counts as free."""
        total = torch.mps.recommended_max_memory()
        return DeviceMemory(total - torch.mps.current_allocated_memory(), total)

    def copier(self) -> "MpsCopier":
        return MpsCopier()

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        return step


class MpsCopier:
    """Copy in the order of the device's work, and wait for each copy."""

    def host_buffer(self, nbytes: int) -> Tensor:
        return torch.empty(nbytes, dtype=torch.uint8)

    def begin(self) -> None:
        pass  # torch has one stream there

    def copy(self, host: Tensor, place: Tensor) -> "MpsCopier":
        place.copy_(host)
        return self

    def synchronize(self) -> None:
        pass  # each copy was waited for
