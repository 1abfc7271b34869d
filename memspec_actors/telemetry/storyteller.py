"""Read a log into its story: what begins with one record ends with another, or with the run."""

from collections.abc import Iterable

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event, SystemStarted
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.phrases import name_of, phrase
from memspec_actors.telemetry.reader import UnknownEvent
from memspec_actors.telemetry.story import DraftSpan, DraftState, Moment, Ran, Ranked, Served, Story

__all__ = ["tell_story"]


def tell_story(records: Iterable[Event | UnknownEvent]) -> Story:
    """Read a log into a story."""
    teller = _Teller()
    for event in records:
        if isinstance(event, Event):
            teller.see(event)
    teller.close()
    return teller.story


_MOMENTS = (
    events.SystemStarted,
    events.SystemStopped,
    events.ResidencyAnnouncedEvent,
    events.DraftActivatedEvent,
    events.ActorCrashed,
    events.ActorRestarted,
)


class _Teller:
    """Keep what is going on; end it when the log, or the run, does."""

    def __init__(self) -> None:
        self.story = Story()
        self._offset: float | None = None  # what turns a monotonic time of this run into the story's
        self._spans: dict[ResidentDraft, DraftSpan] = {}
        self._served: dict[str | None, Served] = {}

    def see(self, event: Event) -> None:
        if isinstance(event, SystemStarted):
            self.close()
        if self._offset is None:
            self.story.began = self.story.began or event.ts
            self._offset = event.ts - self.story.began - event.mono
        now = event.mono + self._offset
        self.story.end = max(self.story.end, now)
        if isinstance(event, _MOMENTS):
            draft = event.draft.name if isinstance(event, events.DraftActivatedEvent) and event.draft else None
            moment = Moment(at=now, actor=event.actor, kind=name_of(event), text=phrase(event), draft=draft)
            self.story.moments.append(moment)
        self._see_request(event, now)
        self._see_draft(event, now)

    def close(self) -> None:
        """End all that goes on: the run is over."""
        for span in self._spans.values():
            span.end = self.story.end
        for served in self._served.values():
            served.end = self.story.end
        self._spans.clear()
        self._served.clear()
        self._offset = None

    def _see_request(self, event: Event, now: float) -> None:
        match event:
            case events.RequestAccepted(request_id=str(request_id), policy=policy):
                served = self._served[request_id] = Served(id=request_id, policy=policy, start=now, end=now)
                self.story.requests.append(served)
            case events.RequestFinished(request_id=request_id) if request_id in self._served:
                served = self._served.pop(request_id)
                served.end, served.reason = now, event.finish_reason
                served.tokens = event.usage.completion_tokens if event.usage else served.tokens
            case events.PredictionMade():
                ranked = Ranked(
                    request=event.request_id or "",
                    interval=event.interval or 0,
                    start=now - event.predict_us / 1e6,
                    end=now,
                    order=event.order,
                    scores=event.scores,
                )
                self.story.predictions.append(ranked)
            case events.Iteration():
                self._see_iteration(event, now)
            case _:
                pass

    def _see_iteration(self, event: events.Iteration, now: float) -> None:
        start = now - event.wall_us / 1e6
        served = self._served.get(event.request_id)
        if served is not None:
            if served.first_token is None:
                served.first_token = start - event.gap_us / 1e6
                served.tokens = 1
            served.tokens += event.emitted
        self.story.iterations.append(
            Ran(
                request=event.request_id or "",
                iteration=event.iteration,
                draft=event.draft.name if event.draft else None,
                desired=event.desired,
                share=event.share,
                start=start,
                end=now,
                drafted=event.drafted,
                accepted=event.accepted,
                emitted=event.emitted,
                gap_us=event.gap_us,
                waited_us=event.waited_us,
            )
        )

    def _see_draft(self, event: Event, now: float) -> None:
        match event:
            case events.DraftLoadStarted(draft=draft):
                self._enter(draft, "loading", now)
            case events.DraftLoadFinished(draft=draft):
                self._enter(draft, "warming", now)
            case events.DraftLoadFailed(draft=draft, error=error):
                self._leave(draft, now, error)
            case events.DraftLoadCancelled(draft=draft):
                self._leave(draft, now, "cancelled")
            case events.ResidencyAnnouncedEvent(resident=resident):
                for draft in resident:
                    self._enter(draft, "resident", now)
            case events.DraftRevoked(draft=draft, reason=reason):
                self._enter(draft, "revoked", now, reason)
            case events.DraftEvicted(draft=draft):
                self._leave(draft, now)
            case _:
                pass

    def _enter(self, draft: ResidentDraft, state: DraftState, now: float, note: str = "") -> None:
        current = self._spans.get(draft)
        if current is not None:
            if current.state == state:
                return
            current.end = now
        span = DraftSpan(draft=draft.name, generation=draft.generation, state=state, start=now, end=now, note=note)
        self._spans[draft] = span
        self.story.drafts.append(span)

    def _leave(self, draft: ResidentDraft, now: float, note: str | None = None) -> None:
        span = self._spans.pop(draft, None)
        if span is not None:
            span.end = now
            span.note = span.note if note is None else note
