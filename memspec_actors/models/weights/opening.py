"""Load a model into memory of its own, for as long as its runner lives."""

import torch

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import HOST, Device, open_transfer
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.plan import LoadPlan

__all__ = ["load_runner", "open_runner"]


def open_runner(checkpoint: Checkpoint, *, dtype: DtypeName = "auto") -> Runner:
    """Load a checkpoint on the CPU and return its runner: lean where that applies, else generic.

    Raises ConfigError and CheckpointError as `LoadPlan.of` does, LoadError naming the file if it changed since it was
    checked.
    """
    return load_runner(LoadPlan.of(checkpoint, dtype, private=True))


def load_runner(plan: LoadPlan, device: Device = HOST) -> Runner:
    """Load a private plan on the device that it was made for and return the runner. Raises LoadError."""
    memory = torch.empty(plan.nbytes, dtype=torch.uint8, device=device.torch_device)
    load_into(plan, memory, transfer=open_transfer(device))
    return plan.bind(memory)
