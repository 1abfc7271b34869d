"""The Loader as the residency state machine knows it: loads overlap, fail, are cancelled, or finish late."""

from collections import deque

from memspec_actors.protocols.messages import Placement, ResidentDraft
from memspec_actors.scheduling.instructions import AbortLoad, Freed, StartLoad

__all__ = ["ModelLoader"]


class ModelLoader:
    """Take what lies in ``inbox`` and say into ``outbox`` how loads ended.

    ``running`` are being read, ``aborted`` those of them that were given up, and ``runners`` what has been bound.
    """

    def __init__(self) -> None:
        self.inbox: deque[StartLoad | AbortLoad | Freed] = deque()
        self.outbox: deque[tuple[str, ResidentDraft]] = deque()
        self.running: dict[ResidentDraft, tuple[Placement, ...]] = {}
        self.aborted: set[ResidentDraft] = set()
        self.runners: dict[ResidentDraft, tuple[Placement, ...]] = {}

    def takes(self) -> None:
        message = self.inbox.popleft()
        if isinstance(message, AbortLoad):
            if message.draft in self.running:
                self.aborted.add(message.draft)
        elif isinstance(message, Freed):
            del self.runners[message.draft]
        else:
            for place in message.placements:
                self.check_write(place)
            self.running[message.draft] = message.placements

    def check_write(self, place: Placement) -> None:
        bound = [p for placements in self.runners.values() for p in placements]
        if place.present:
            assert any(p.artefact == place.artefact and p.offset == place.offset for p in bound), "nothing is there"
            return
        written = [p for placements in self.running.values() for p in placements if not p.present]
        for other in [*bound, *written]:
            apart = place.offset + place.nbytes <= other.offset or other.offset + other.nbytes <= place.offset
            assert apart, f"{place} is read over {other}"

    def ends(self, choice: int, outcome: str) -> None:
        draft = sorted(self.running, key=lambda d: d.name)[choice % len(self.running)]
        if outcome == "cancelled" and draft not in self.aborted:
            outcome = "finished"
        placements = self.running.pop(draft)
        self.aborted.discard(draft)
        if outcome == "finished":
            self.runners[draft] = placements
        self.outbox.append((outcome, draft))
