"""Every record of the event log: one JSON object per line, told apart by ``event``.

Common fields: ``seq`` grows by one per record, ``ts`` is Unix time and ``mono`` the monotonic clock (seconds),
``actor`` wrote it; ``request_id``, ``interval`` and ``epoch`` are null where they mean nothing. Durations are
microseconds.
"""

from typing import Literal

import msgspec

from memspec_actors.protocols.messages import ResidentDraft, WaitedFor
from memspec_actors.protocols.results import FinishReason, Scheduling, SpeculativeMetrics, Timing, Usage

__all__ = [
    "ActorCrashed",
    "ActorRestarted",
    "DraftActivatedEvent",
    "DraftEvicted",
    "DraftLoadCancelled",
    "DraftLoadFailed",
    "DraftLoadFinished",
    "DraftLoadStarted",
    "DraftRevoked",
    "Event",
    "IntervalFinished",
    "Iteration",
    "PredictionMade",
    "RankingApplied",
    "RequestAccepted",
    "RequestFinished",
    "ResidencyAcknowledged",
    "ResidencyAnnouncedEvent",
    "ShareKind",
    "SystemStarted",
    "SystemStopped",
    "ThresholdsPublishedEvent",
]

ShareKind = Literal["desired", "fallback", "target_only"]


def _tag(name: str) -> str:
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    return snake.removesuffix("_event")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_tag):
    """Carry the common fields; ``seq``, ``ts`` and ``mono`` are filled in by the log when it writes."""

    seq: int = 0
    ts: float = 0.0
    mono: float = 0.0
    actor: str
    request_id: str | None = None
    interval: int | None = None
    epoch: int | None = None


class SystemStarted(Event, frozen=True, kw_only=True):
    """Open a log: what runs, with which models and limits."""

    version: str
    target: str
    drafts: dict[str, int]  # name -> bytes of weights
    capacity: int
    budget_bytes: int
    policy: str
    stop_rule: str
    accept: str
    schedule_interval: int
    recent_tokens: int
    prediction: str
    emulated_bandwidth: float | None  # bytes per second; null when storage is not throttled
    dtype: str
    threads: int
    device: str = "cpu"


class RequestAccepted(Event, frozen=True, kw_only=True):
    """A request was queued."""

    prompt_tokens: int
    max_new_tokens: int
    policy: str
    stop_rule: str
    accept: str
    temperature: float
    thresholds: Literal["fixed", "sync", "async"] = "fixed"  # whether its rules learn, and decoding waits for it
    seed: int
    lossless: bool
    task_digest: str | None = None  # of prompt, limits, sampling: the same target gives equal tasks equal tokens


class PredictionMade(Event, frozen=True, kw_only=True):
    """The Predictor ranked the drafts for a scheduling point.

    It was at it for ``predict_us``. ``cpu_us`` is how long its thread kept a processor core busy, with this ranking and
    those before it that were no news; the rest it waited, for a core or for Python's lock.
    """

    policy: str
    order: tuple[str, ...]
    scores: tuple[float | None, ...]  # null is infinite: a bandit ranks first what it has not tried yet
    predict_us: float
    cpu_us: float
    context_tokens: int


class RankingApplied(Event, frozen=True, kw_only=True):
    """A ranking was taken over: by the Decoder (it picks with it) or the CacheManager (it moves drafts with it)."""

    order: tuple[str, ...]


class ResidencyAnnouncedEvent(Event, frozen=True, kw_only=True):
    """The set of usable drafts changed."""

    resident: tuple[ResidentDraft, ...]
    reason: str
    resident_bytes: int
    reserved_bytes: int


class ResidencyAcknowledged(Event, frozen=True, kw_only=True):
    """The Decoder decodes from now on by the announcement of ``epoch``; 0 says that it started anew, with no draft."""

    active: ResidentDraft | None


class DraftLoadStarted(Event, frozen=True, kw_only=True):
    """A prefetch began; its bytes are reserved."""

    draft: ResidentDraft
    nbytes: int
    resident_bytes: int
    reserved_bytes: int


class DraftLoadFinished(Event, frozen=True, kw_only=True):
    """A draft's weights are in memory."""

    draft: ResidentDraft
    nbytes: int
    wall_us: float
    emulated: bool


class DraftLoadFailed(Event, frozen=True, kw_only=True):
    """A load failed; the draft is quarantined for ``retry_in_s``."""

    draft: ResidentDraft
    error: str
    retry_in_s: float
    reserved_bytes: int


class DraftLoadCancelled(Event, frozen=True, kw_only=True):
    """A load was superseded; its bytes are free again."""

    draft: ResidentDraft
    reserved_bytes: int


class DraftRevoked(Event, frozen=True, kw_only=True):
    """A draft left the announced set and waits for the Decoder's acknowledgement."""

    draft: ResidentDraft
    reason: str
    score: float | None


class DraftEvicted(Event, frozen=True, kw_only=True):
    """A revoked draft was acknowledged and its memory freed."""

    draft: ResidentDraft
    nbytes: int
    acknowledged_epoch: int
    resident_bytes: int
    reserved_bytes: int


class DraftActivatedEvent(Event, frozen=True, kw_only=True):
    """Decoding goes on with another draft, or with the target alone (null)."""

    draft: ResidentDraft | None
    previous: ResidentDraft | None
    iteration: int


class Iteration(Event, frozen=True, kw_only=True):
    """One draft-and-verify iteration (or plain target step, draft null)."""

    iteration: int
    draft: ResidentDraft | None
    desired: str | None
    share: ShareKind
    drafted: int
    accepted: int
    emitted: int
    committed: int  # tokens of prompt and text after this iteration
    catch_up_tokens: int
    catch_up_us: float
    draft_us: float
    verify_us: float
    wall_us: float
    gap_us: float  # from the end of the iteration before, or of the prompt's encoding, to the start of this one
    waited_us: float  # how long decoding stood still before it: only where a policy or a rule waits by definition
    waited_for: WaitedFor | None = None
    departures: int = 0  # tokens accepted though the target's own choice was another


class ThresholdsPublishedEvent(Event, frozen=True, kw_only=True):
    """What the tokens verified up to ``iteration`` (-1: none) have taught the request's rules; null where none learns.

    The distances counted are those that AdaSD's densities are estimated from.
    """

    iteration: int
    stop_threshold: float | None
    accepted_distances: int | None
    rejected_distances: int | None


class IntervalFinished(Event, frozen=True, kw_only=True):
    """A scheduling interval ended."""

    iterations: int
    drafted: int
    accepted: int
    emitted: int


class ActorCrashed(Event, frozen=True, kw_only=True):
    """An actor died of an error; one that was ``stopping`` anyway is not restarted."""

    error: str
    restarts: int
    stopping: bool = False


class ActorRestarted(Event, frozen=True, kw_only=True):
    """An actor was started again after a crash."""

    backoff_s: float
    restarts: int


class RequestFinished(Event, frozen=True, kw_only=True):
    """A request ended: exactly one such record per accepted request."""

    finish_reason: FinishReason | Literal["error"]
    error: str | None = None
    token_digest: str | None = None  # of the text's token ids
    usage: Usage | None = None
    timing: Timing | None = None
    speculative_decoding: SpeculativeMetrics | None = None
    scheduling: Scheduling | None = None


class SystemStopped(Event, frozen=True, kw_only=True):
    """Close a log; ``mailbox_peaks`` counts the most messages that were ever queued for each actor."""

    reason: str
    records: int
    mailbox_peaks: dict[str, int] = {}
