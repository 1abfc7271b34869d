"""Where models run: everything that differs between a CPU, CUDA and Apple's MPS lies behind `Device`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from memspec_actors.errors import DeviceFull
from memspec_actors.models.devices.transfer import Copier, Transfer

__all__ = [
    "HOST",
    "Device",
    "DeviceMemory",
    "HostDevice",
    "ids_on",
    "new_memory",
    "open_transfer",
    "raise_if_full",
]


class DeviceMemory(NamedTuple):
    """Bytes of a device's own memory."""

    free: int
    total: int


class Device(Protocol):
    """What a model's weights, keys and values live on."""

    @property
    def torch_device(self) -> torch.device: ...

    @property
    def memory(self) -> DeviceMemory | None:
        """Memory as it stands now; None where it is the process's own, which the operating system looks after."""
        ...

    def copier(self) -> Copier | None:
        """Return a way for bytes from host memory; None where files can be read straight into the device's."""
        ...

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        """Return what does the same as ``step`` at each call, on the same memory, as cheaply as the device can.

        ``step`` may be tried a few times meanwhile, each time after ``rewind``. It makes no decision that depends on
        what is in the tensors that it works on.
        """
        ...


class HostDevice:
    """The processor and its memory."""

    torch_device = torch.device("cpu")
    memory = None

    def copier(self) -> None:
        return None

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        return step


HOST = HostDevice()


def new_memory(nbytes: int, device: Device) -> Tensor:
    """Return memory for weights (uint8, 1-D). Raises DeviceFull where a device has not so much."""
    try:
        return torch.empty(nbytes, dtype=torch.uint8, device=device.torch_device)
    except RuntimeError as error:
        raise_if_full(error, device.torch_device, f"{nbytes / 1e6:.0f} MB of weights")
        raise


def raise_if_full(error: RuntimeError, device: torch.device, what: str) -> None:
    """Raise DeviceFull if torch's error says that a device's memory is used up; TorchScript tells it as text only."""
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error):
        remedy = "shorten the text, or set a smaller [memory] budget or dtype"
        raise DeviceFull(f"{device} has no room for {what}; {remedy}") from error


def open_transfer(device: Device) -> Transfer | None:
    """Return a way for loads into a device's memory; None where they need none."""
    copier = device.copier()
    return None if copier is None else Transfer(copier)


def ids_on(device: torch.device, ids: Tensor | Sequence[int]) -> Tensor:
    """Return token ids as an int64 tensor on a device, which they reach in the order of its work."""
    if isinstance(ids, Tensor):
        return ids.to(device, torch.int64)
    host = torch.as_tensor(ids, dtype=torch.int64)
    if device.type == "cuda":  # from pinned memory nobody waits for the copy, nor for the work before it
        return host.pin_memory().to(device, non_blocking=True)
    return host.to(device)
