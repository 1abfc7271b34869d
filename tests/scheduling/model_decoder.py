"""The Decoder as the residency state machine knows it: it picks, warms and acknowledges, at any time, in any order."""

from collections import deque
from collections.abc import Container, Sequence

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.instructions import Announce, Warm

__all__ = ["ModelDecoder"]


class ModelDecoder:
    """Take what lies in ``inbox``, say things into ``outbox``, and touch no weights but those of ``runners``.

    ``order`` is the newest ranking, and ``read`` the last announcement that was taken.
    """

    def __init__(self, runners: Container[ResidentDraft]) -> None:
        self.inbox: deque[Announce | Warm] = deque()
        self.outbox: deque[tuple[str, ResidentDraft | None, int]] = deque()
        self.order: Sequence[str] = ()
        self.read: Announce | None = None
        self.active: ResidentDraft | None = None
        self.warming: list[ResidentDraft] = []
        self.has_sequence = True
        self._runners = runners

    def takes(self, choice: int | None = None) -> None:
        message = self.inbox.popleft()
        if isinstance(message, Announce):
            self.read = message
            self.picks(choice)
            self.outbox.append(("ack", self.active, message.epoch))
        elif self.has_sequence:
            self.warming.append(message.draft)
        else:
            self.outbox.append(("warmed", message.draft, 0))

    def picks(self, choice: int | None = None) -> None:
        """Activate a usable draft: any one, or by default the best-ranked."""
        usable: list[ResidentDraft | None] = list(self.read.resident) if self.read else []
        ranked = [d for name in self.order for d in usable if d and d.name == name]
        picked = [*usable, None][choice % (len(usable) + 1)] if choice is not None else next(iter(ranked), None)
        if picked != self.active:
            self.active = picked
            self.outbox.append(("activated", picked, 0))

    def iterates(self) -> None:
        for draft in [self.active, *self.warming]:
            assert draft is None or draft in self._runners, "the Decoder computes with freed weights"
        assert self.active is None or (self.read is not None and self.active in self.read.resident)

    def warmed(self, choice: int) -> None:
        draft = self.warming.pop(choice % len(self.warming))
        assert draft in self._runners, "the Decoder warms freed weights"
        self.outbox.append(("warmed", draft, 0))

    def restarts(self) -> None:
        self.read, self.active, self.has_sequence = None, None, False
        while self.warming:
            self.warmed(0)
        self.outbox.append(("ack", None, 0))

    def begins(self) -> None:
        self.has_sequence = True

    def may_touch(self, draft: ResidentDraft) -> bool:
        """Whether it uses a draft, or could by what it has read or will read."""
        coming = [draft in m.resident if isinstance(m, Announce) else draft == m.draft for m in self.inbox]
        usable = self.read is not None and draft in self.read.resident
        return draft == self.active or draft in self.warming or usable or any(coming)
