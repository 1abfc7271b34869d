"""Invariants 1 and 3: what the Decoder uses is what was announced, and is not freed before it says so."""

from collections.abc import Iterator

from memspec_actors.protocols.events import (
    ActorCrashed,
    DraftActivatedEvent,
    DraftEvicted,
    DraftRevoked,
    Event,
    Iteration,
    ResidencyAcknowledged,
    ResidencyAnnouncedEvent,
    SystemStarted,
)
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.audit.invariant import Finding, Invariant
from memspec_actors.telemetry.phrases import draft_label

__all__ = ["EpochsRespected", "FreedAfterAcknowledgement"]


class EpochsRespected(Invariant):
    """Hold every iteration against the announcement of the epoch it names."""

    number = 1
    rule = "no iteration ran a draft outside the epoch it named"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._announced: dict[int, ResidencyAnnouncedEvent] = {}
        self._newest = 0
        self._known: set[tuple[ResidentDraft, int]] = set()  # found wrong already

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case ResidencyAnnouncedEvent(epoch=int(epoch)):
                if epoch <= self._newest:
                    yield Finding(f"epoch {epoch} was announced after epoch {self._newest}", (event,))
                self._newest = max(epoch, self._newest)
                self._announced[epoch] = event
            case Iteration(epoch=int(epoch), draft=ResidentDraft() as draft):
                self.num_checked += 1
                if (draft, epoch) not in self._known:
                    yield from self._check(event, epoch, draft)
            case ResidencyAcknowledged(epoch=int(epoch)) if epoch:
                self._announced = {each: self._announced[each] for each in self._announced if each >= epoch}
            case _:
                pass

    def _check(self, event: Iteration, epoch: int, draft: ResidentDraft) -> Iterator[Finding]:
        announcement = self._announced.get(epoch)
        if announcement is None and self.whole:
            what = f"{draft_label(draft)} ran in epoch {epoch}, which was not announced or no longer acknowledged"
            yield Finding(what, (event,))
        elif announcement is not None and draft not in announcement.resident:
            yield Finding(f"{draft_label(draft)} ran in epoch {epoch}, which does not name it", (announcement, event))
        else:
            return
        self._known.add((draft, epoch))


class FreedAfterAcknowledgement(Invariant):
    """Hold every eviction against what the Decoder itself said last: what it decodes with, which epoch it has read.

    A draft that is revoked and wanted again is announced again with the same generation, so its last announcement
    counts. A load that was given up is freed without ever having been announced: it needs no acknowledgement.
    """

    number = 3
    rule = "the active draft is never freed before an acknowledgement"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._activation: DraftActivatedEvent | None = None
        self._acknowledged: ResidencyAcknowledged | None = None
        self._named_by: dict[ResidentDraft, ResidencyAnnouncedEvent] = {}
        self._revoked: set[ResidentDraft] = set()

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case DraftActivatedEvent():
                self._activation = event
            case ActorCrashed(actor="decoder"):
                self._activation = None
            case ResidencyAcknowledged(epoch=int(epoch)):
                if self._acknowledged is None or epoch >= (self._acknowledged.epoch or 0):
                    self._acknowledged = event
            case ResidencyAnnouncedEvent(resident=resident):
                self._named_by |= dict.fromkeys(resident, event)
            case DraftRevoked(draft=draft):
                self._revoked.add(draft)
            case DraftEvicted():
                self.num_checked += 1
                yield from self._check(event)
                self._named_by.pop(event.draft, None)
                self._revoked.discard(event.draft)
            case _:
                pass

    def _check(self, event: DraftEvicted) -> Iterator[Finding]:
        draft, label, epoch = event.draft, draft_label(event.draft), event.acknowledged_epoch
        naming, read = self._named_by.get(draft), self._acknowledged
        if self._activation is not None and self._activation.draft == draft:
            yield Finding(f"{label} was freed while the Decoder decoded with it", (self._activation, event))
        elif naming is not None and (naming.epoch or 0) >= epoch:
            yield Finding(f"{label} was freed by epoch {epoch}, but epoch {naming.epoch} names it", (naming, event))
        elif (naming or draft in self._revoked) and read is not None and (read.epoch or 0) < epoch:
            what = f"{label} was freed by epoch {epoch}, but the Decoder had acknowledged no more than {read.epoch}"
            yield Finding(what, (read, event))
