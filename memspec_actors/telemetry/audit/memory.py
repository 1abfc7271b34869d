"""Invariants 2 and 6: which drafts hold memory, how much, and how every load ends."""

from collections.abc import Iterator

from memspec_actors.protocols.events import (
    DraftEvicted,
    DraftLoadCancelled,
    DraftLoadFailed,
    DraftLoadFinished,
    DraftLoadStarted,
    Event,
    RankingApplied,
    ResidencyAnnouncedEvent,
    SystemStarted,
)
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.audit.invariant import Finding, Invariant
from memspec_actors.telemetry.phrases import draft_label, megabytes

__all__ = ["LoadsEnd", "MemoryWithinLimits"]

_TellsBytes = DraftLoadStarted | ResidencyAnnouncedEvent | DraftEvicted
_TELLS_BYTES = (DraftLoadStarted, ResidencyAnnouncedEvent, DraftEvicted)


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
