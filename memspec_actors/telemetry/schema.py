"""All kinds of records: how they are told apart, and their JSON Schema."""

from typing import Any, Union

import msgspec

from memspec_actors.protocols.events import Event

__all__ = ["EVENT_TYPES", "event_decoder", "event_name", "event_schema"]

#: Every kind of record that this version writes.
EVENT_TYPES: tuple[type[Event], ...] = tuple(Event.__subclasses__())

_AnyEvent: Any = Union[EVENT_TYPES]  # noqa: UP007


def event_decoder() -> msgspec.json.Decoder[Event]:
    """Return a decoder of one line; it raises msgspec.DecodeError for what is no record of this version."""
    return msgspec.json.Decoder(_AnyEvent)


def event_name(kind: type[Event]) -> str:
    """Return the name that a kind of record has in the log, as ``draft_evicted``."""
    return str(kind.__struct_config__.tag)


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one line of the log."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One record of memspec's event log",
        **msgspec.json.schema(_AnyEvent),
    }
