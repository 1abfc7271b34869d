"""Read an event log back, whatever a kill, a newer version or another program did to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

import msgspec

from memspec_actors.errors import UsageError
from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.append_file import rotated_files

__all__ = ["EventReader", "UnknownEvent", "read_events"]

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[tuple(Event.__subclasses__())])  # noqa: UP007


class _Head(msgspec.Struct, frozen=True):
    """What makes a line a record, of whatever version."""

    event: str
    seq: int


class UnknownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Carry a record that this version does not know, or knows otherwise, as it was read."""

    name: str
    seq: int
    fields: dict[str, Any]


class EventReader:
    """Iterate over the records of a log, files that were rotated out of it first.

    ``file`` and ``line`` (from 1) are the place of the record given last; ``skipped`` counts the lines that are no
    records (torn by a kill, or foreign), ``unknown`` the records given as UnknownEvent. Raises UsageError for a file
    that cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file = self.path
        self.line = 0
        self.skipped = 0
        self.unknown = 0

    def __iter__(self) -> Iterator[Event | UnknownEvent]:
        self.skipped = self.unknown = 0
        for file in [*rotated_files(self.path), self.path]:
            self.file = file
            yield from self._read(file)

    def _read(self, file: Path) -> Iterator[Event | UnknownEvent]:
        try:
            with file.open("rb") as lines:
                for self.line, line in enumerate(lines, start=1):
                    record = self._decode(line)
                    if record is not None:
                        yield record
        except OSError as error:
            raise UsageError(f"the event log {file} cannot be read: {error.strerror}") from error

    def _decode(self, line: bytes) -> Event | UnknownEvent | None:
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return self._decode_unknown(line)

    def _decode_unknown(self, line: bytes) -> UnknownEvent | None:
        try:
            head = msgspec.json.decode(line, type=_Head)
            fields = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.skipped += 1
            return None
        self.unknown += 1
        return UnknownEvent(name=head.event, seq=head.seq, fields=fields)


def read_events(path: str | Path) -> EventReader:
    """Give an iterable over the log at ``path`` that also counts what it had to skip."""
    return EventReader(path)
