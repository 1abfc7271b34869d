"""The writer of the event log: structlog stamps and renders each event, one ``write()`` appends it."""

import json
import sys
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import structlog

from memspec_actors.errors import ConfigError
from memspec_actors.protocols.events import Event, IntervalFinished, Iteration, ThresholdsPublishedEvent
from memspec_actors.runtime.onlookers import show
from memspec_actors.telemetry.append_file import AppendFile

__all__ = ["Clock", "EventLog", "Listener", "system_clock"]

#: What level "info" leaves out. Everything else is written per request or per scheduling point.
DEBUG_EVENTS: frozenset[type[Event]] = frozenset({Iteration, IntervalFinished, ThresholdsPublishedEvent})

#: Gives Unix time and the monotonic clock, both in seconds.
Clock = Callable[[], tuple[float, float]]

#: Hears an event.
Listener = Callable[[Event], None]


def system_clock() -> tuple[float, float]:
    """Read the machine's clocks: Unix time and monotonic time in seconds."""
    return time.time(), time.monotonic()


class EventLog:
    """Append events to a file, one JSON object per line, or to nothing.

    ``listener`` hears every event before it is numbered and timed, those that ``level`` leaves out too. Only one thread
    may write. A log that cannot be written any more (a full disk, say) disables itself, says so once on
    standard error and keeps the reason in ``error``: generation goes on. ``records`` counts what this log has written.
    """

    def __init__(
        self,
        file: AppendFile | None,
        path: Path | None,
        left_out: frozenset[type[Event]],
        clock: Clock,
        listener: Listener | None,
    ) -> None:
        self.error: str | None = None
        self._file = file
        self._path = path
        self._left_out = left_out
        self._listener = listener
        self._stamp = _Stamp(clock)
        self._logger = None if file is None else _RecordLogger(file, [self._stamp, _Renderer()], {})

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        *,
        level: Literal["info", "debug"] = "debug",
        rotate_bytes: int | None = None,
        clock: Clock = system_clock,
        listener: Listener | None = None,
    ) -> Self:
        """Open a log for appending; ``path`` None gives one that writes nothing.

        ``level`` "info" leaves out ``iteration`` and ``interval_finished``. ``rotate_bytes`` is the size that a file
        does not outgrow: it becomes ``path.1``, that one ``path.2``, and so on. Raises ConfigError if it cannot
        be opened.
        """
        left_out = DEBUG_EVENTS if level == "info" else frozenset()
        if path is None:
            return cls(None, None, left_out, clock, listener)
        path = Path(path)
        try:
            return cls(AppendFile(path, rotate_bytes), path, left_out, clock, listener)
        except OSError as error:
            raise ConfigError(f"the event log {path} cannot be opened: {error.strerror}") from error

    @property
    def enabled(self) -> bool:
        """Tell whether a write goes anywhere; events need not be built if not."""
        return self._logger is not None or self._listener is not None

    @property
    def records(self) -> int:
        """Count the records written so far; the next one has ``seq`` one higher."""
        return self._stamp.seq

    def write(self, event: Event) -> None:
        """Append ``event`` with ``seq``, ``ts`` and ``mono`` filled in. Never raises for the file or the listener."""
        if self._listener is not None:
            show(self._listener, event)
        if self._logger is None or type(event) in self._left_out:
            return
        try:
            self._logger.record(event)
        except OSError as error:
            self._stamp.seq -= 1
            self._disable(error)

    def close(self) -> None:
        """Close the file; later events are dropped. May be called again."""
        self._logger = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _disable(self, error: OSError) -> None:
        self.error = f"the event log {self._path} is disabled after {self.records} records: {error.strerror or error}"
        self.close()
        sys.stderr.write(f"memspec: warning: {self.error}\n")


class _RecordLogger(structlog.BoundLoggerBase):
    """Pass an event through the processors to ``AppendFile.append``."""

    def record(self, event: Event) -> None:
        # structlog types its first argument as text, but hands it to the processors untouched.
        self._proxy_to_logger("append", event)  # type: ignore[arg-type]


_EventDict = MutableMapping[str, Any]


class _Stamp:
    """Number an event and give it the time."""

    def __init__(self, clock: Clock) -> None:
        self.seq = 0
        self._clock = clock

    def __call__(self, logger: object, method: str, event_dict: _EventDict) -> _EventDict:
        self.seq += 1
        ts, mono = self._clock()
        event_dict["event"] = msgspec.structs.replace(event_dict["event"], seq=self.seq, ts=ts, mono=mono)
        return event_dict


class _Renderer:
    """Encode an event as a line of JSON; the buffer is used again, so a line is valid until the next."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._line = bytearray()

    def __call__(self, logger: object, method: str, event_dict: _EventDict) -> bytearray:
        event = event_dict["event"]
        try:
            self._encoder.encode_into(event, self._line)
        except UnicodeEncodeError:  # a lone surrogate: a file name that is not UTF-8, in some error's message
            text = json.dumps(msgspec.to_builtins(event), ensure_ascii=False)
            self._line[:] = text.encode(errors="replace")
        self._line += b"\n"
        return self._line
