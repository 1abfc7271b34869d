"""The figures of a device are there on every kind of device, as far as they apply."""

import pytest
import torch

from memspec_actors import zoo
from memspec_actors.bench.device_figures import decoding, loads, overlap, steps
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import HOST, Device
from memspec_actors.models.drafting.device_slots import DeviceSlots
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.weights.opening import load_runner
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.fake_device import FakeDevice

NUM_IDS = 3584


@pytest.mark.parametrize("device", [HOST, FakeDevice()], ids=["cpu", "device"])
def test_every_figure_is_measured_on_every_device(device: Device) -> None:
    """The script is run where nobody can mend it."""
    on_device = device is not HOST
    plan = LoadPlan.of(Checkpoint.open(zoo.path("law")), "float32", on_device=on_device)
    lean = load_runner(plan, device)
    assert isinstance(lean, LeanRunner)
    place = torch.empty(plan.nbytes, dtype=torch.uint8)
    loaded = loads(plan, device, place, 1)
    assert ("pinned copy GB/s" in loaded) == ("load over pinned copy" in loaded) == on_device
    draft = DeviceSlots(device).bind(plan, lean, 0, NUM_IDS) if on_device else lean
    kept = overlap(decoding(lean, draft, NUM_IDS, 0.01), lambda: place.fill_(1), 2)
    assert kept["kept beside loads"]["median"] > 0
    assert set(steps(plan, device, lean, NUM_IDS, 1)) == {"ordinary pass us", "step as it is us"}
