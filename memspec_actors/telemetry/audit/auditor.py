"""One pass over a log: every record goes past all eight invariants."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from memspec_actors.protocols.events import Event, SystemStarted, SystemStopped
from memspec_actors.telemetry.audit.crashes import ActorsRestarted
from memspec_actors.telemetry.audit.invariant import Finding, Invariant
from memspec_actors.telemetry.audit.memory import LoadsEnd, MemoryWithinLimits
from memspec_actors.telemetry.audit.requests import OneFinish, TextAccountedFor
from memspec_actors.telemetry.audit.residency import EpochsRespected, FreedAfterAcknowledgement
from memspec_actors.telemetry.audit.waits import NeverWaits
from memspec_actors.telemetry.phrases import name_of, phrase
from memspec_actors.telemetry.reader import EventReader, UnknownEvent

__all__ = ["Audit", "Auditor", "Checked", "Violation", "audit"]


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Name a broken invariant, what is wrong, and the records that show it; ``line`` is where it was noticed."""

    invariant: int
    rule: str
    what: str
    seqs: tuple[int, ...]
    records: tuple[str, ...]
    file: str | None
    line: int | None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how often the log could decide an invariant."""

    invariant: int
    rule: str
    times: int


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found: ``checked`` records, ``violations`` in the order in which they were noticed.

    ``missing`` records are gaps in the numbering, ``exempt_waits`` those that inline prediction and ``mab-sync`` ask
    for; ``from_start`` tells that the log has its first run from its start.
    """

    checked: int
    violations: tuple[Violation, ...]
    invariants: tuple[Checked, ...]
    runs: int
    from_start: bool
    missing: int
    exempt_waits: int
    skipped: int
    unknown: int


class Auditor:
    """Check records as they come. ``see`` returns what each one breaks."""

    def __init__(self) -> None:
        self.num_records = self.num_runs = self.num_missing = 0
        self.from_start = True
        self._waits = NeverWaits()
        self._invariants: tuple[Invariant, ...] = (
            EpochsRespected(),
            MemoryWithinLimits(),
            FreedAfterAcknowledgement(),
            self._waits,
            TextAccountedFor(),
            LoadsEnd(),
            ActorsRestarted(),
            OneFinish(),
        )
        self._seq: int | None = None

    @property
    def num_exempt(self) -> int:
        """Number of waits that a configuration asks for."""
        return self._waits.num_exempt

    @property
    def checked(self) -> tuple[Checked, ...]:
        """How often each invariant could be decided so far."""
        return tuple(
            Checked(invariant=each.number, rule=each.rule, times=each.num_checked) for each in self._invariants
        )

    def see(self, event: Event | UnknownEvent, file: str | None = None, line: int | None = None) -> list[Violation]:
        """Take the next record of the log; ``file`` and ``line`` are its place."""
        if isinstance(event, SystemStarted) or not self.num_records:
            self._begin(event)
        self.num_records += 1
        if self._seq is not None:
            self.num_missing += max(0, event.seq - self._seq - 1)
        self._seq = event.seq
        if isinstance(event, UnknownEvent):
            return []
        found = [(each, finding) for each in self._invariants for finding in each.see(event)]
        if isinstance(event, SystemStopped):
            found += [(each, finding) for each in self._invariants for finding in each.end()]
        return [_violation(invariant, finding, file, line) for invariant, finding in found]

    def _begin(self, event: Event | UnknownEvent) -> None:
        started = event if isinstance(event, SystemStarted) else None
        if not self.num_records:
            self.from_start = started is not None
        self.num_runs += 1
        self._seq = None
        for invariant in self._invariants:
            invariant.begin(started)


def audit(events: str | Path | Iterable[Event | UnknownEvent]) -> Audit:
    """Check a log, or any records, against the eight invariants in one pass. Raises UsageError if it cannot be read."""
    source = EventReader(events) if isinstance(events, str | Path) else events
    reader = source if isinstance(source, EventReader) else None
    auditor = Auditor()
    violations: list[Violation] = []
    for event in source:
        violations += auditor.see(event, str(reader.file) if reader else None, reader.line if reader else None)
    return Audit(
        checked=auditor.num_records,
        violations=tuple(violations),
        invariants=auditor.checked,
        runs=auditor.num_runs,
        from_start=auditor.from_start,
        missing=auditor.num_missing,
        exempt_waits=auditor.num_exempt,
        skipped=reader.skipped if reader else 0,
        unknown=reader.unknown if reader else 0,
    )


def _violation(invariant: Invariant, finding: Finding, file: str | None, line: int | None) -> Violation:
    return Violation(
        invariant=invariant.number,
        rule=invariant.rule,
        what=finding.what,
        seqs=tuple(event.seq for event in finding.records),
        records=tuple(f"{event.seq} {event.actor} {name_of(event)}: {phrase(event)}" for event in finding.records),
        file=file,
        line=line,
    )
