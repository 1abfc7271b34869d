"""Turn records into flat rows, as data frames like them."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.reader import UnknownEvent

__all__ = ["to_records"]


def to_records(events: Iterable[Event | UnknownEvent]) -> Iterator[dict[str, Any]]:
    """Yield one flat dictionary per record, nested names joined by dots (``draft.name``)."""
    for event in events:
        yield _flat(event.fields if isinstance(event, UnknownEvent) else msgspec.to_builtins(event))


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            row |= _flat(value, f"{prefix}{name}.")
        else:
            row[prefix + name] = value
    return row
