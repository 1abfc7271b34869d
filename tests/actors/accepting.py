"""Requests that were taken on, with callers that remember what they are given."""

from memspec_actors.actors.decoding.requests import Accepted
from memspec_actors.protocols.events import Event, RequestFinished
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult, TextChunk
from memspec_actors.scheduling.residency_counts import ResidencyCounts
from memspec_actors.telemetry.account import RequestAccount
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.recorder import RequestRecorder


class Caller:
    """Remember chunks, and how the request ended, however often; ``logged`` are the ends that the event log has."""

    def __init__(self) -> None:
        self.chunks: list[TextChunk] = []
        self.results: list[GenerationResult] = []
        self.errors: list[Exception] = []
        self.logged: list[RequestFinished] = []

    def chunk(self, chunk: TextChunk) -> None:
        self.chunks.append(chunk)

    def finish(self, result: GenerationResult) -> None:
        self.results.append(result)

    def fail(self, error: Exception) -> None:
        self.errors.append(error)

    def hear(self, event: Event) -> None:
        if isinstance(event, RequestFinished):
            self.logged.append(event)

    @property
    def num_ends(self) -> int:
        assert len(self.logged) == len(self.results) + len(self.errors), "the log has another end than the caller"
        return len(self.logged)


def accepted(caller: Caller, request_id: str = "r0", **options: object) -> Accepted:
    """Return a request of this caller; call it on an event loop."""
    fields: dict[str, object] = {
        "prompt_ids": (1, 2, 3),
        "max_new_tokens": 20,
        "sampling": SamplingParams(),
        "seed": 1,
        "policy": "mab-async",
        "stop_rule": "fixed:3",
        "accept": "exact",
        "lossless": True,
    }
    request = GenerationRequest(request_id=request_id, **(fields | options))  # type: ignore[arg-type]
    account = RequestAccount(
        request=request,
        interval=4,
        capacity=2,
        emulated_storage=False,
        submitted_at=0.0,
        residency_counts=ResidencyCounts,
    )
    log = EventLog.open(None, listener=caller.hear)
    return Accepted(request, caller, RequestRecorder("decoder", log, account), "trace")
