"""Invariants 1, 2, 3 and 6: epochs, memory, acknowledgements, loads."""

from collections.abc import Iterator

from memspec_actors.protocols.events import (
    ActorCrashed,
    DraftActivatedEvent,
    DraftEvicted,
    DraftLoadCancelled,
    DraftLoadFailed,
    DraftLoadFinished,
    DraftLoadStarted,
    DraftRevoked,
    Event,
    Iteration,
    RankingApplied,
    ResidencyAcknowledged,
    ResidencyAnnouncedEvent,
    SystemStarted,
)
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.audit.invariant import Finding, Invariant
from memspec_actors.telemetry.phrases import draft_label, megabytes

__all__ = ["EpochsRespected", "FreedAfterAcknowledgement", "LoadsEnd", "MemoryWithinLimits"]

_TellsBytes = DraftLoadStarted | ResidencyAnnouncedEvent | DraftEvicted
_TELLS_BYTES = (DraftLoadStarted, ResidencyAnnouncedEvent, DraftEvicted)


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


class MemoryWithinLimits(Invariant):
    """Count the drafts that hold memory, and add up the bytes that the records tell."""

    number = 2
    rule = "bytes resident + reserved never exceed the budget, nor drafts K"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._holders: dict[ResidentDraft, DraftLoadStarted] = {}
        self._found = 0  # the excess found last

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case DraftLoadStarted(draft=draft):
                self._holders[draft] = event
                yield from self._check_number(event)
            case DraftLoadFailed(draft=draft) | DraftLoadCancelled(draft=draft) | DraftEvicted(draft=draft):
                self._holders.pop(draft, None)
            case _:
                pass
        if isinstance(event, _TELLS_BYTES):
            yield from self._check_bytes(event)

    def _check_number(self, event: DraftLoadStarted) -> Iterator[Finding]:
        if self.started is not None and len(self._holders) > self.started.capacity:
            names = " ".join(map(draft_label, self._holders))
            what = f"{len(self._holders)} drafts hold memory ({names}), K is {self.started.capacity}"
            yield Finding(what, tuple(self._holders.values()))

    def _check_bytes(self, event: _TellsBytes) -> Iterator[Finding]:
        if self.started is None:
            return
        self.num_checked += 1
        taken, budget = sum(_bytes_of(event)), self.started.budget_bytes
        if taken > budget and taken != self._found:
            self._found = taken
            yield Finding(f"{taken} bytes are taken ({megabytes(taken)}), the budget is {budget}", (event,))


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


class LoadsEnd(Invariant):
    """Follow every load to its end and keep the accounts of bytes.

    The CacheManager writes what follows from one message in one go, each record with the byte counts after all of it.
    So its figures are compared with the accounts when they change, another actor writes, or another message is begun.
    """

    number = 6
    rule = "every load ends in finished, failed or cancelled, exactly once, and its bytes are accounted for"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._loading: dict[ResidentDraft, DraftLoadStarted] = {}
        self._loaded: dict[ResidentDraft, DraftLoadFinished] = {}
        self._resident_bytes = self._reserved_bytes = 0
        self._told: _TellsBytes | None = None
        self._balanced = True

    def see(self, event: Event) -> Iterator[Finding]:
        if self._is_another_message(event):
            yield from self._compare()
        match event:
            case DraftLoadStarted():
                yield from self._start(event)
            case DraftLoadFinished() | DraftLoadFailed() | DraftLoadCancelled():
                yield from self._finish(event)
            case DraftEvicted(draft=draft, nbytes=nbytes):
                if self._loaded.pop(draft, None) is not None:
                    self._resident_bytes -= nbytes
                elif self.whole:
                    yield Finding(f"{draft_label(draft)} was freed, but was not in memory", (event,))
            case _:
                pass
        if isinstance(event, _TELLS_BYTES) and self.started is not None:
            is_possible = sum(_bytes_of(event)) <= self.started.budget_bytes  # or invariant 2 has spoken already
            self._told = event if is_possible else None

    def end(self) -> Iterator[Finding]:
        for draft, start in self._loading.items():
            yield Finding(f"the load of {draft_label(draft)} never ended", (start,))

    def _is_another_message(self, event: Event) -> bool:
        if self._told is not None and isinstance(event, _TELLS_BYTES):
            return (event.resident_bytes, event.reserved_bytes) != (
                self._told.resident_bytes,
                self._told.reserved_bytes,
            )
        return event.actor != "cache_manager" or isinstance(event, DraftLoadFinished | RankingApplied)

    def _start(self, event: DraftLoadStarted) -> Iterator[Finding]:
        for draft, before in (*self._loading.items(), *self._loaded.items()):
            if draft.name == event.draft.name:
                what = f"{draft_label(event.draft)} began to load while {draft_label(draft)} held memory"
                yield Finding(what, (before, event))
        self._loading[event.draft] = event
        self._reserved_bytes += event.nbytes

    def _finish(self, event: DraftLoadFinished | DraftLoadFailed | DraftLoadCancelled) -> Iterator[Finding]:
        self.num_checked += 1
        start = self._loading.pop(event.draft, None)
        if start is not None:
            self._reserved_bytes -= start.nbytes
            if isinstance(event, DraftLoadFinished):
                self._loaded[event.draft] = event
                self._resident_bytes += start.nbytes
            self._told = None
        elif self.whole:
            yield Finding(f"a load of {draft_label(event.draft)} ended, but none was under way", (event,))

    def _compare(self) -> Iterator[Finding]:
        told, self._told = self._told, None
        expected = self._resident_bytes, self._reserved_bytes
        if told is not None and self._balanced and _bytes_of(told) != expected:
            self._balanced = False  # everything after is off by the same
            what = (
                f"{told.resident_bytes} bytes resident and {told.reserved_bytes} reserved are told,"
                f" loads and evictions add up to {expected[0]} and {expected[1]}"
            )
            yield Finding(what, (told,))


def _bytes_of(event: _TellsBytes) -> tuple[int, int]:
    return event.resident_bytes, event.reserved_bytes
