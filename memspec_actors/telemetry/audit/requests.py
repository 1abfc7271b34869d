"""Invariants 5 and 8: the text of every request, and its end."""

from collections.abc import Iterator
from dataclasses import dataclass

from memspec_actors.protocols.events import (
    Event,
    Iteration,
    RequestAccepted,
    RequestFinished,
    SystemStarted,
)
from memspec_actors.telemetry.audit.invariant import Finding, Invariant

__all__ = ["OneFinish", "TextAccountedFor"]


@dataclass(slots=True)
class _Text:
    """How far one request's text has come."""

    accepted: RequestAccepted
    committed: int | None = None
    emitted: int = 0
    is_wrong: bool = False


class TextAccountedFor(Invariant):
    """Account for every token, and compare the texts of equal tasks.

    A log holds no text. What it can decide: each iteration emits the accepted tokens and at most one of the target's
    own, all of them are in the text, and equal tasks (one prompt, one limit, one sampling, one target) got equal tokens
    whatever drafts ran. Equality is asked of float32 only: elsewhere two logits may tie.
    """

    number = 5
    rule = "in lossless modes the token ids equal the target's own"

    def __init__(self) -> None:
        super().__init__()
        self._results: dict[tuple[str, str], RequestFinished] = {}

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._texts: dict[str | None, _Text] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case RequestAccepted(request_id=request_id):
                self._texts[request_id] = _Text(event)
            case Iteration(request_id=request_id):
                text = self._texts.get(request_id)
                if text is not None and not text.is_wrong:
                    yield from self._add(text, event)
            case RequestFinished(request_id=request_id):
                text = self._texts.pop(request_id, None)
                if text is not None and not text.is_wrong:
                    yield from self._finish(text, event)
            case _:
                pass

    def _add(self, text: _Text, event: Iteration) -> Iterator[Finding]:
        self.num_checked += 1
        # the first token comes out of the prompt's encoding
        before = text.accepted.prompt_tokens + 1 if text.committed is None else text.committed
        text.committed = event.committed
        text.emitted += event.emitted
        what = None
        if event.accepted > event.drafted or (event.drafted and event.draft is None):
            what = f"{event.accepted} of {event.drafted} drafted tokens were accepted"
        elif not event.accepted <= event.emitted <= event.accepted + 1:
            what = f"{event.emitted} tokens were emitted, {event.accepted} of them accepted and one the target's own"
        elif event.committed != before + event.emitted:
            what = f"{before} tokens and {event.emitted} more made {event.committed}"
        if what is not None:
            text.is_wrong = True
            yield Finding(what, (event,))

    def _finish(self, text: _Text, event: RequestFinished) -> Iterator[Finding]:
        if event.usage is not None and text.committed is not None:
            self.num_checked += 1
            if event.usage.completion_tokens != text.emitted + 1:
                what = f"the text has {event.usage.completion_tokens} tokens, its iterations made {text.emitted + 1}"
                yield Finding(what, (text.accepted, event))
                return
        task = self._task(text.accepted)
        if task is not None and event.token_digest is not None and event.finish_reason in ("stop", "length"):
            self.num_checked += 1
            first = self._results.setdefault(task, event)
            if first.token_digest != event.token_digest:
                what = f"requests {first.request_id} and {event.request_id} asked for the same text and got two"
                yield Finding(what, (first, event))

    def _task(self, accepted: RequestAccepted) -> tuple[str, str] | None:
        """Return what decides the tokens of a request, None if something else may too."""
        if self.started is None or self.started.dtype != "float32" or accepted.task_digest is None:
            return None
        is_fixed = accepted.lossless and accepted.accept in ("exact", "match")
        return (self.started.target, accepted.task_digest) if is_fixed else None


class OneFinish(Invariant):
    """Count the ends of every request."""

    number = 8
    rule = "every accepted request ends in exactly one finish event"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._open: dict[str | None, RequestAccepted] = {}
        self._ended: dict[str | None, RequestFinished] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        request_id = event.request_id
        match event:
            case RequestAccepted():
                if request_id in self._open or request_id in self._ended:
                    yield Finding(f"request {request_id} was accepted twice", (event,))
                self._open[request_id] = event
            case RequestFinished():
                self.num_checked += 1
                if self._open.pop(request_id, None) is None and (self.whole or request_id in self._ended):
                    before = self._ended.get(request_id)
                    what = f"request {request_id} ended twice" if before else f"request {request_id} never began"
                    yield Finding(what, (before, event) if before else (event,))
                self._ended[request_id] = event
            case Iteration() if request_id in self._ended and request_id not in self._open:
                yield Finding(f"request {request_id} went on after its end", (self._ended[request_id], event))
            case _:
                pass

    def end(self) -> Iterator[Finding]:
        for request_id, accepted in self._open.items():
            self.num_checked += 1
            yield Finding(f"request {request_id} never ended", (accepted,))
