"""The Decoder's requests, each with its caller: who waits, whose turn it is, and how each of them ends."""

from collections import deque
from dataclasses import dataclass

from msgspec.structs import replace

from memspec_actors.models.outcome import StepOutcome
from memspec_actors.protocols.messages import OutputSink, ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import FinishReason, TextChunk, TokenLogprob
from memspec_actors.telemetry.recorder import RequestRecorder

__all__ = ["Accepted", "RequestQueue"]


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """A request that was taken on: its caller gets chunks, then one result or error, which the event log has too."""

    request: GenerationRequest
    sink: OutputSink
    recorder: RequestRecorder
    trace_id: str

    def emit(self, outcome: StepOutcome, draft: ResidentDraft | None, resident: tuple[ResidentDraft, ...]) -> None:
        """Give the caller what one call of the session added."""
        self.sink.chunk(
            TextChunk(
                text=outcome.commit.text,
                token_ids=outcome.commit.ids,
                draft=draft.name if draft else None,
                resident=tuple(each.name for each in resident),
                accepted=outcome.accepted,
                drafted=outcome.drafted,
                logprobs=outcome.logprobs,
            )
        )

    def emit_tail(self, text: str, resident: tuple[ResidentDraft, ...]) -> None:
        """Give the caller text of tokens that it has been given already."""
        names = tuple(each.name for each in resident)
        self.sink.chunk(TextChunk(text=text, token_ids=(), draft=None, resident=names, accepted=0, drafted=0))

    def finish(
        self,
        reason: FinishReason,
        *,
        text: str = "",
        token_ids: tuple[int, ...] = (),
        logprobs: tuple[TokenLogprob, ...] | None = None,
    ) -> None:
        """Give the caller the result."""
        result = self.recorder.finished(text=text, token_ids=token_ids, reason=reason)
        self.sink.finish(result if logprobs is None else replace(result, logprobs=logprobs))

    def fail(self, error: Exception) -> None:
        """Give the caller an error in place of a result."""
        self.recorder.failed(error)
        self.sink.fail(error)


class RequestQueue:
    """Serve requests one after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Accepted] = deque()
        self._served: Accepted | None = None  # from before its session is opened

    @property
    def is_empty(self) -> bool:
        """Tell whether nobody waits."""
        return not self._waiting

    def add(self, accepted: Accepted) -> None:
        self._waiting.append(accepted)

    def serve_next(self) -> Accepted:
        """Return the request whose turn it is from now on, until it is `served`."""
        self._served = self._waiting.popleft()
        return self._served

    def served(self) -> None:
        """Forget the request whose turn it was: it has ended."""
        self._served = None

    def cancel(self, request_id: str) -> None:
        """End a request whose turn has not come; others are no business of this queue's."""
        for accepted in list(self._waiting):
            if accepted.request.request_id == request_id:
                self._waiting.remove(accepted)
                accepted.finish("cancelled")

    def fail_all(self, error: Exception) -> None:
        """End every request: the one whose turn it is, and those that wait."""
        ended = [*([] if self._served is None else [self._served]), *self._waiting]
        self.served()
        self._waiting.clear()
        for accepted in ended:
            accepted.fail(error)
