"""Read an event log back, whatever a kill, a newer version or another program did to it."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from memspec_actors.errors import UsageError, first_line
from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.log_files import log_files_in_turn, open_log_file
from memspec_actors.telemetry.schema import event_decoder

__all__ = ["EventReader", "LineDecoder", "UnknownEvent", "read_events"]


class _Head(msgspec.Struct, frozen=True):
    """What makes a line a record, of whatever version."""

    event: str
    seq: int


class UnknownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Carry a record that this version does not know, or knows otherwise, as it was read."""

    name: str
    seq: int
    fields: dict[str, Any]


class LineDecoder:
    """Decode lines one by one; count the records, those of them given as UnknownEvent, and the lines that are none.

    ``on_unknown`` hears why a record is not known.
    """

    def __init__(self, on_unknown: Callable[[str], None] | None = None) -> None:
        self.decoded = self.unknown = self.skipped = 0
        self._on_unknown = on_unknown
        self._decoder = event_decoder()

    def decode(self, line: bytes | str) -> Event | UnknownEvent | None:
        """Return the record of a line, or None for a line torn by a kill or written by another program."""
        try:
            record = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._decode_unknown(line, error)
        self.decoded += 1
        return record

    def _decode_unknown(self, line: bytes | str, reason: Exception) -> UnknownEvent | None:
        try:
            head = msgspec.json.decode(line, type=_Head)
            fields = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.skipped += 1
            return None
        self.decoded += 1
        self.unknown += 1
        if self._on_unknown is not None:
            self._on_unknown(f"{head.event}: {first_line(reason)}")
        return UnknownEvent(name=head.event, seq=head.seq, fields=fields)


class EventReader:
    """Iterate over the records of a log, files that were rotated out of it first; ``.gz`` and ``.zst`` too.

    ``file`` and ``line`` (from 1) are the place of the record given last; ``skipped`` counts the lines that are no
    records (torn by a kill, or foreign), ``unknown`` the records given as UnknownEvent, and ``first_unknown`` tells the
    place of the first and why. Raises UsageError for a file that cannot be read and, if it ``must_hold_records``, for a
    log without any.
    """

    def __init__(self, path: str | Path, *, must_hold_records: bool = False) -> None:
        self.path = Path(path)
        self._must_hold_records = must_hold_records
        self.file = self.path
        self.line = 0
        self.first_unknown: str | None = None
        self._decoder = LineDecoder()

    @property
    def skipped(self) -> int:
        return self._decoder.skipped

    @property
    def unknown(self) -> int:
        return self._decoder.unknown

    def __iter__(self) -> Iterator[Event | UnknownEvent]:
        self._decoder = LineDecoder(self._note_unknown)
        self.first_unknown = None
        for file in log_files_in_turn(self.path):
            self.file = file
            yield from self._read(file)
        if self._must_hold_records and not self._decoder.decoded:
            raise UsageError(f"{self.path} holds no event record ({self.skipped} other lines); is it an event log?")

    def _read(self, file: Path) -> Iterator[Event | UnknownEvent]:
        decode = self._decoder.decode
        try:
            with open_log_file(file) as lines:
                for self.line, line in enumerate(lines, start=1):
                    record = decode(line)
                    if record is not None:
                        yield record
        except EOFError:  # a compressed file that was cut off
            self._decoder.skipped += 1
        except (OSError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"the event log {file} cannot be read: {reason}") from error

    def _note_unknown(self, why: str) -> None:
        if self.first_unknown is None:
            self.first_unknown = f"{self.file}:{self.line}: {why}"


def read_events(path: str | Path) -> EventReader:
    """Give an iterable over the log at ``path`` that also counts what it had to skip."""
    return EventReader(path)
