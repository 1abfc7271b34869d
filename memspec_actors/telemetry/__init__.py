"""Writing the event log, and reading it back.

Each module imports only from the lines above its own. To write it:

    log_files                     the files of one log: rotated, plain or compressed
    append_file                   a file of whole lines
    event_log                     the writer
    account                       the books of one request, and its result
    recorder, residency_events    a request's records; those of what the residency state machine heard and decided

To read it:

    schema                        all kinds of records
    reader, follow                typed records of a finished log; lines of one that is still written
    records, phrases              records as flat rows; as a few words
    summary, audit                every figure recomputed; every invariant checked
    compare                       two summaries side by side
    story                         spans and moments, for those who draw
    storyteller                   from records to a story
    trace, timeline               stories drawn: for Perfetto; as a page or a picture
"""

from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import EventReader, UnknownEvent
from memspec_actors.telemetry.reader import read_events as read
from memspec_actors.telemetry.records import to_records

__all__ = ["EventLog", "EventReader", "UnknownEvent", "read", "to_records"]
