"""Bind drafts to places of a device's arena, and let them use on what earlier drafts left there."""

from typing import NamedTuple

from memspec_actors.models.devices.device import Device
from memspec_actors.models.drafting.device_draft import ArenaSlot, DeviceDraft
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.weights.plan import LoadPlan

__all__ = ["DeviceSlots"]


class _Place(NamedTuple):
    start: int
    end: int
    layout: object  # compares equal where all that a recorded step depends on is equal

    def overlaps(self, other: "_Place") -> bool:
        return self.start < other.end and other.start < self.end


class DeviceSlots:
    """Keep the slots of an arena.

    A step recorded for one draft serves every later one of the same layout at the same place: it reads the same
    addresses. Where a draft of another layout, or with another number of ids, comes to overlap the place, the slot is
    given up and the next step is recorded anew.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._slots: dict[_Place, ArenaSlot] = {}

    def bind(self, plan: LoadPlan, runner: LeanRunner, offset: int, num_ids: int) -> DeviceDraft:
        """Return the draft that runs as ``runner``, whose weights lie from byte ``offset`` of the arena on."""
        layout = (plan.dtype, runner.shape, num_ids, tuple(plan.slots.items()))
        place = _Place(offset, offset + plan.nbytes, layout)
        self._slots = {each: slot for each, slot in self._slots.items() if each == place or not each.overlaps(place)}
        slot = self._slots.setdefault(place, ArenaSlot(self._device, num_ids))
        return DeviceDraft(runner, slot)
