"""Epochs: every change of what may be used has a number, and memory waits until the Decoder acknowledged it."""

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.instructions import Announce
from memspec_actors.scheduling.slot import Slot, State
from memspec_actors.scheduling.slots import Slots

__all__ = ["Epochs"]

# What an announcement tells: the drafts that may be used and the names of those that will not be loaded.
View = tuple[tuple[ResidentDraft, ...], tuple[str, ...]]


class Epochs:
    """Number announcements from 1 on, and hold the Decoder to what it says of them.

    ``acknowledged`` is the newest that it goes by, 0 before the first, and ``active`` the draft that it decodes with.
    """

    def __init__(self) -> None:
        self.newest = 0
        self.acknowledged = 0
        self.active: ResidentDraft | None = None
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

    def acknowledge(self, epoch: int, active: ResidentDraft | None, slots: Slots) -> bool:
        """Note what the Decoder goes by and decodes with; return False, and ignore it, if that is old or cannot be."""
        if not self.acknowledged <= epoch <= self.newest or not self.activate(active, slots):
            return False
        self.acknowledged = epoch
        return True

    def activate(self, draft: ResidentDraft | None, slots: Slots) -> bool:
        """Note what the Decoder decodes with; return False, and ignore it, if that cannot be: the draft is gone."""
        if draft is not None and slots.find(draft, State.RESIDENT, State.REVOKED) is None:
            return False
        self.active = draft
        return True

    def has_left(self, slot: Slot) -> bool:
        """Return whether the Decoder goes by an epoch without this revoked draft, and decodes with another."""
        left_out = slot.revoked_epoch is not None and slot.revoked_epoch <= self.acknowledged
        return left_out and slot.draft != self.active

    def protected(self, slots: Slots) -> set[str]:
        """Return the drafts that are not to be taken away now."""
        if self.active is None:
            return set()
        if slots.find(self.active, State.REVOKED):
            # Activated while its revocation was under way: the Decoder will move to one that it can still see, so none
            # of those is taken away before it has said to which.
            return {slot.draft.name for slot in slots.in_state(State.RESIDENT)}
        return {self.active.name}

    def begin_anew(self) -> None:
        """Note that the Decoder started anew: it decodes with nothing and is told again whatever was announced."""
        self.active = None
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
