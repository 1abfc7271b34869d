"""Writing the event log, and reading it back."""

from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import EventReader, UnknownEvent
from memspec_actors.telemetry.reader import read_events as read
from memspec_actors.telemetry.records import to_records

__all__ = ["EventLog", "EventReader", "UnknownEvent", "read", "to_records"]
