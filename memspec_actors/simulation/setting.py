"""In what setting texts are replayed, and which rules their traces allow."""

from dataclasses import dataclass

from memspec_actors.config import ScheduleConfig
from memspec_actors.errors import ConfigError, TraceError
from memspec_actors.protocols.traces import TraceHeader, TraceRecord
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.speculation.stop import criterion_of, stop_rule

__all__ = ["Setting", "check_replayable", "text_limit"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Say on what device and how drafts are scheduled: ``schedule`` holds N and T, ``capacity`` is K.

    ``stop`` names the rule that drafts stop by; without one they have the length at which the trace cuts its runs.
    """

    profile: DeviceProfile
    schedule: ScheduleConfig
    capacity: int
    stop: str | None = None

    def stop_for(self, header: TraceHeader) -> str:
        """Return the name of the stop rule under which texts of a trace are replayed."""
        return self.stop or f"fixed:{header.k}"


def text_limit(header: TraceHeader, record: TraceRecord) -> int:
    """Return how many tokens the text of a record might have had: all that were asked for, or as many as fitted."""
    ended = record.output_ids[-1:] and record.output_ids[-1] in header.eos_ids
    return header.max_new_tokens if ended else len(record.output_ids)


def check_replayable(record: TraceRecord, stop: str) -> None:
    """Raise TraceError if a trace lacks what a stop rule goes by, ConfigError if no trace could have it."""
    criterion = criterion_of(stop_rule(stop))
    if criterion is None:
        raise ConfigError(f"stop is {stop!r}: only built-in rules can be replayed; decode with it instead")
    if criterion.signal != "none" and record.free_runs is None:
        raise TraceError(
            f"stop is {stop!r}, but the trace does not say how sure drafts were;"
            f" collect it with `memspec predictor collect --free-runs`"
        )
