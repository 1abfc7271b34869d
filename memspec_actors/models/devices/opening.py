"""Find the device that a configuration names."""

import torch

from memspec_actors.errors import ConfigError
from memspec_actors.models.devices.cuda import CudaDevice
from memspec_actors.models.devices.device import HOST, Device
from memspec_actors.models.devices.mps import MpsDevice

__all__ = ["open_device"]


def open_device(name: str) -> Device:
    """Return the device of ``[target] device``. Raises ConfigError if this machine, or this torch, has none such."""
    kind, _, index = name.partition(":")
    if kind == "cuda":
        num_devices = torch.cuda.device_count()
        if int(index or 0) >= num_devices:
            raise ConfigError(f"[target] device is {name!r}; {_what_cuda_there_is(num_devices)}")
        return CudaDevice(int(index or 0))
    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError(f'[target] device is {name!r}; torch {torch.__version__} finds no such GPU: use "cpu"')
        return MpsDevice()
    if kind != "cpu":
        raise ConfigError(f'[target] device is {name!r}; models run on "cpu", "cuda", "cuda:N" or "mps"')
    return HOST


def _what_cuda_there_is(num_devices: int) -> str:
    if num_devices:
        return f"CUDA devices here are numbered from 0 to {num_devices - 1}"
    build = "no CUDA device is found" if torch.version.cuda else f"torch {torch.__version__} is a build without CUDA"
    return f'{build}: use "cpu"'
