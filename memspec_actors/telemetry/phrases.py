"""Say what a record says, in a few words."""

from typing import Any

import msgspec

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.reader import UnknownEvent
from memspec_actors.telemetry.schema import event_name

__all__ = ["draft_label", "megabytes", "milliseconds", "name_of", "phrase"]


def name_of(event: Event | UnknownEvent) -> str:
    """Return the name of a record's kind, as ``draft_evicted``."""
    return event.name if isinstance(event, UnknownEvent) else event_name(type(event))


def draft_label(draft: ResidentDraft | None) -> str:
    """Return ``code#2`` for the second load of ``code``; the target alone is ``target``."""
    return "target" if draft is None else f"{draft.name}#{draft.generation}"


def milliseconds(us: float) -> str:
    """Write microseconds as milliseconds."""
    return f"{us / 1e3:.1f} ms"


def megabytes(nbytes: float) -> str:
    """Write bytes as megabytes, of 10**6 bytes."""
    return f"{nbytes / 1e6:.1f} MB"


def phrase(event: Event | UnknownEvent) -> str:
    """Return what is particular to a record, without its time, actor and request."""
    match event:
        case events.SystemStarted(drafts=drafts, capacity=capacity):
            return (
                f"memspec {event.version}, target {event.target}, drafts {' '.join(drafts)}, K = {capacity},"
                f" {megabytes(event.budget_bytes)}, {event.policy}, {event.dtype}"
            )
        case events.RequestAccepted(prompt_tokens=prompt_tokens, max_new_tokens=max_new_tokens):
            return (
                f"{prompt_tokens} prompt tokens, at most {max_new_tokens} new, {event.policy}, {event.stop_rule},"
                f" {event.accept}"
            )
        case events.PredictionMade(order=order, scores=scores):
            pairs = zip(order, scores, strict=False)
            ranking = ", ".join(f"{name} {'untried' if score is None else f'{score:.2f}'}" for name, score in pairs)
            return f"{ranking} in {milliseconds(event.predict_us)}"
        case events.RankingApplied(order=order):
            return " ".join(order)
        case events.Iteration():
            return _iteration(event)
        case events.IntervalFinished(iterations=iterations, emitted=emitted):
            return f"{iterations} iterations, {event.accepted} of {event.drafted} accepted, {emitted} tokens"
        case events.RequestFinished():
            return _finish(event)
        case events.ActorCrashed(error=error, restarts=restarts):
            return f"after {restarts} restarts: {error}"
        case events.ActorRestarted(restarts=restarts, backoff_s=backoff_s):
            return f"restart {restarts}, {backoff_s:g} s after the crash"
        case events.SystemStopped(reason=reason, records=records):
            return f"{reason}, {records} records"
        case UnknownEvent(fields=fields):
            return _fields({name: value for name, value in fields.items() if name not in _COMMON})
        case _:
            return _residency(event)


def _residency(event: Event) -> str:
    match event:
        case events.ResidencyAnnouncedEvent(resident=resident, reason=reason):
            return f"{' '.join(map(draft_label, resident)) or 'none'} ({reason})"
        case events.ResidencyAcknowledged(active=active):
            return f"decoding with {draft_label(active)}"
        case events.DraftLoadStarted(draft=draft, nbytes=nbytes):
            return f"{draft_label(draft)}, {megabytes(nbytes)}"
        case events.DraftLoadFinished(draft=draft, nbytes=nbytes, wall_us=wall_us):
            return f"{draft_label(draft)}, {megabytes(nbytes)} in {milliseconds(wall_us)}"
        case events.DraftLoadFailed(draft=draft, error=error, retry_in_s=retry_in_s):
            return f"{draft_label(draft)}: {error}; again in {retry_in_s:g} s"
        case events.DraftLoadCancelled(draft=draft):
            return draft_label(draft)
        case events.DraftRevoked(draft=draft, reason=reason):
            return f"{draft_label(draft)}: {reason}"
        case events.DraftEvicted(draft=draft, acknowledged_epoch=epoch):
            return f"{draft_label(draft)}, epoch {epoch} was acknowledged"
        case events.DraftActivatedEvent(draft=draft, previous=previous):
            return f"{draft_label(draft)} after {draft_label(previous)}"
        case _:
            return _fields({name: value for name, value in msgspec.to_builtins(event).items() if name not in _COMMON})


_COMMON = ("event", *Event.__struct_fields__)


def _iteration(event: events.Iteration) -> str:
    ran = draft_label(event.draft)
    if event.draft is None or event.draft.name != event.desired:
        ran += f" (wanted {event.desired})" if event.desired else ""
    waited = f", waited {milliseconds(event.waited_us)} for a {event.waited_for}" if event.waited_us else ""
    return (
        f"{event.iteration}: {ran}, {event.accepted} of {event.drafted} accepted, {event.emitted} tokens in"
        f" {milliseconds(event.wall_us)}{waited}"
    )


def _finish(event: events.RequestFinished) -> str:
    if event.usage is None or event.timing is None:
        return f"{event.finish_reason}: {event.error}"
    speed = event.timing.tokens_per_second
    return f"{event.finish_reason}, {event.usage.completion_tokens} tokens, {speed:.1f} tokens/s"


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items())
