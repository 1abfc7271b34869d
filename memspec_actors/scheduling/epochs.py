"""Epochs: every change of what may be used has a number, and memory waits until the Decoder acknowledged it."""

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.instructions import Announce
from memspec_actors.scheduling.slot import Slot, State
from memspec_actors.scheduling.slots import Slots

__all__ = ["Epochs"]

# What an announcement tells: the drafts that may be used and the names of those that will not be loaded.
View = tuple[tuple[ResidentDraft, ...], tuple[str, ...]]


class Epochs:
    """Number announcements from 1 on; ``acknowledged`` is the newest that the Decoder goes by, 0 before the first."""

    def __init__(self) -> None:
        self.newest = 0
        self.acknowledged = 0
        self._announced: View | None = ((), ())  # None: to a Decoder that has read nothing

    def announce(self, slots: Slots, unavailable: tuple[str, ...]) -> list[Announce]:
        """Announce what there is now, under a new epoch, if anybody has to hear of it."""
        present = (tuple(slot.draft for slot in slots.in_state(State.RESIDENT)), unavailable)
        # A draft may be revoked before it was ever announced; it too needs an epoch whose acknowledgement frees it.
        revoked = [slot for slot in slots.in_state(State.REVOKED) if slot.revoked_epoch is None]
        if present == self._announced and not revoked:
            return []
        reason = _difference(self._announced, present) or "revoked before it was announced"
        self._announced = present
        self.newest += 1
        for slot in revoked:
            slot.revoked_epoch = self.newest
        return [Announce(self.newest, *present, reason)]

    def acknowledge(self, epoch: int) -> bool:
        """Note that the Decoder goes by an epoch; return False, and ignore it, if it was never announced or is old."""
        if not self.acknowledged <= epoch <= self.newest:
            return False
        self.acknowledged = epoch
        return True

    def has_left(self, slot: Slot) -> bool:
        """Return whether the Decoder goes by an epoch without this revoked draft."""
        return slot.revoked_epoch is not None and slot.revoked_epoch <= self.acknowledged

    def repeat(self) -> None:
        """Let whatever was announced be announced again: the Decoder started anew."""
        if self.newest:
            self._announced = None


def _difference(before: View | None, after: View) -> str:
    if before is None:
        return "the Decoder started anew"
    changes = [f"{draft.name} joined" for draft in after[0] if draft not in before[0]]
    changes += [f"{draft.name} revoked" for draft in before[0] if draft not in after[0]]
    changes += [f"{name} unavailable" for name in after[1] if name not in before[1]]
    changes += [f"{name} available again" for name in before[1] if name not in after[1]]
    return ", ".join(changes)
