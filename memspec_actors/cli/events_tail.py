"""How ``memspec events tail`` chooses records and shows them, one line each."""

import difflib
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from memspec_actors.errors import UsageError
from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.follow import follow_file, follow_url
from memspec_actors.telemetry.phrases import name_of, phrase
from memspec_actors.telemetry.reader import LineDecoder, UnknownEvent
from memspec_actors.telemetry.schema import EVENT_TYPES, event_name

__all__ = ["Choice", "tail"]

POLL_S = 0.2
_COLOURS = {
    "actor": "red", "draft": "cyan", "residency": "cyan", "prediction": "magenta", "ranking": "magenta",
    "request": "green", "system": "bold", "iteration": "", "interval": "dim",
}  # fmt: skip


class Choice(msgspec.Struct, frozen=True):
    """Say which records are wanted; an empty collection or text wants all. Raises UsageError for an unknown event."""

    events: Collection[str] = ()
    actors: Collection[str] = ()
    request: str = ""

    def __post_init__(self) -> None:
        known = [event_name(kind) for kind in EVENT_TYPES]
        for name in self.events:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {' '.join(known)}"
                raise UsageError(f"there is no event {name!r}; {hint}")

    def wants(self, event: Event | UnknownEvent) -> bool:
        fields = event.fields if isinstance(event, UnknownEvent) else {}
        actor = event.actor if isinstance(event, Event) else str(fields.get("actor"))
        request = event.request_id if isinstance(event, Event) else fields.get("request_id")
        return (
            (not self.events or name_of(event) in self.events)
            and (not self.actors or actor in self.actors)
            and str(request or "").startswith(self.request)
        )


def tail(
    log: str,
    choice: Choice,
    *,
    number: int,
    follow: bool,
    json: bool,
    api_key: str | None = None,
    wait: Callable[[], None] = lambda: time.sleep(POLL_S),
) -> None:
    """Print the last ``number`` wanted records of a log, then those to come; of a URL those to come, always.

    ``wait`` is called when there is nothing new.
    """
    is_url = log.startswith(("http://", "https://"))
    lines = follow_url(_events_url(log), api_key) if is_url else follow_file(Path(log))
    show = _print_json if json else _Printer().show
    last: deque[tuple[bytes, Event | UnknownEvent]] | None = deque(maxlen=number)
    for chosen in _chosen(lines, choice):
        if chosen is not None and last is not None:
            last.append(chosen)
        elif chosen is not None:
            show(*chosen)
        else:
            for each in last or ():
                show(*each)
            last = None
            if not (follow or is_url):
                return
            wait()


def _chosen(lines: Iterator[bytes | None], choice: Choice) -> Iterator[tuple[bytes, Event | UnknownEvent] | None]:
    decoder = LineDecoder()
    for line in lines:
        if line is None:
            yield None
            continue
        event = decoder.decode(line)
        if event is not None and choice.wants(event):
            yield line, event


def _events_url(url: str) -> str:
    base = url.rstrip("/")
    return base if "/" in base.partition("://")[2] else f"{base}/events"


def _print_json(line: bytes, event: Event | UnknownEvent) -> None:
    sys.stdout.write(line.decode(errors="replace").rstrip("\n") + "\n")
    sys.stdout.flush()


class _Printer:
    """Write one line per record, in colour on a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)

    def show(self, line: bytes, event: Event | UnknownEvent) -> None:
        name, fields = name_of(event), event.fields if isinstance(event, UnknownEvent) else {}
        ts = event.ts if isinstance(event, Event) else fields.get("ts")
        actor = event.actor if isinstance(event, Event) else str(fields.get("actor"))
        request = event.request_id if isinstance(event, Event) else fields.get("request_id")
        text = Text()
        text.append(f"{_clock(ts)} ", style="dim")
        text.append(f"{actor:14} ")
        text.append(f"{name:22} ", style=_COLOURS.get(name.partition("_")[0], ""))
        text.append(f"{str(request or '')[:8]:8} ", style="dim")
        text.append(phrase(event))
        self._console.print(text)


def _clock(ts: object) -> str:
    try:
        clock = time.localtime(ts) if isinstance(ts, float) else None
    except (ValueError, OverflowError, OSError):  # beyond what a calendar knows
        clock = None
    if clock is None or not isinstance(ts, float):
        return "??:??:??.???"
    return time.strftime("%H:%M:%S", clock) + f".{int(ts % 1 * 1000):03}"
