"""Which drafts decoding may use, and which it does: the Decoder's side of the residency protocol.

The other side, `residency`, reuses the memory of a revoked draft once an epoch without it was acknowledged. So nothing
is acknowledged before all that it leaves out has been let go of.
"""

from collections.abc import Sequence

from memspec_actors.protocols.messages import ResidencyAnnounced, ResidentDraft
from memspec_actors.scheduling.pick import pick_draft

__all__ = ["Leases"]


class Leases:
    """Go from announcement to announcement, using drafts of the present one only.

    ``newest`` is the last announcement heard of, ``current`` the one gone by, ``acknowledged`` the epoch acknowledged
    last, and ``active`` the draft that decodes. Other drafts may be read with beside decoding.
    """

    def __init__(self) -> None:
        self.newest = self.current = ResidencyAnnounced(epoch=0, resident=(), unavailable=())
        self.acknowledged = 0
        self.active: ResidentDraft | None = None
        self._reading: set[ResidentDraft] = set()

    def hear(self, announced: ResidencyAnnounced) -> None:
        """Remember an announcement, until it can be gone by."""
        self.newest = announced

    def spares_active(self) -> bool:
        """Tell whether the newest announcement can be gone by amid an iteration: it names the draft at work, if any."""
        return self.active is None or self.active in self.newest.resident

    def adopt(self) -> frozenset[ResidentDraft]:
        """Go by the newest announcement, once no draft that it leaves out is read with; return what it leaves out."""
        if self.newest is self.current or not self._reading.issubset(self.newest.resident):
            return frozenset()
        before, self.current = self.current, self.newest
        return frozenset(before.resident).difference(self.current.resident)

    def activate(self, order: Sequence[str]) -> bool:
        """Decode with the best-ranked draft that may be used, or with none; tell whether that is a change."""
        previous, self.active = self.active, pick_draft(order, self.current.resident)
        return self.active != previous

    def acknowledge(self) -> bool:
        """Tell whether an epoch is to be acknowledged, the active draft being one of it: each epoch once."""
        before, self.acknowledged = self.acknowledged, self.current.epoch
        return self.acknowledged != before

    def start_reading(self, draft: ResidentDraft) -> bool:
        """Read with a draft beside decoding; tell whether that can be: it is not in use already."""
        if draft == self.active or draft in self._reading:
            return False
        self._reading.add(draft)
        return True

    def stop_reading(self, draft: ResidentDraft) -> None:
        """Let go of a draft that was read with."""
        self._reading.remove(draft)
