"""Keep the books of one request while it runs, and draw up its result."""

import time
from dataclasses import dataclass, field

from memspec_actors.protocols.messages import DraftRanking, IterationReport, ResidencyAnnounced
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import (
    FinishReason,
    GenerationResult,
    Metrics,
    Scheduling,
    Timing,
    Usage,
)
from memspec_actors.speculation.statistics import SpeculationCounters

__all__ = ["RequestAccount"]


@dataclass(slots=True, kw_only=True)
class RequestAccount:
    """Count and time one request; meanwhile ``loads`` drafts joined the announced set and ``evictions`` left it."""

    request: GenerationRequest
    interval: int
    capacity: int
    emulated_storage: bool
    lossless: bool
    accepted_at: float = field(default_factory=time.perf_counter)
    switches: int = 0
    loads: int = 0
    evictions: int = 0
    predictions: int = 0
    predict_us: float = 0.0
    counters: SpeculationCounters = field(default_factory=SpeculationCounters)
    _started_at: float | None = None
    _first_token_at: float | None = None

    def start(self) -> None:
        """Leave the queue: the prompt is encoded from now on."""
        self._started_at = time.perf_counter()

    def first_token(self) -> None:
        """End the prompt's encoding: steady-state decoding begins."""
        self._first_token_at = time.perf_counter()

    def add_ranking(self, ranking: DraftRanking) -> None:
        self.predictions += 1
        self.predict_us += ranking.predict_us

    def add_announcement(self, old: ResidencyAnnounced, new: ResidencyAnnounced) -> None:
        before = set(old.resident)
        self.loads += len(set(new.resident) - before)
        self.evictions += len(before - set(new.resident))

    def add_iteration(self, report: IterationReport) -> None:
        self.counters.add_report(report)

    def result(self, *, text: str, token_ids: tuple[int, ...], finish_reason: FinishReason) -> GenerationResult:
        """Draw up the result, as of now."""
        timing = self._timing(len(token_ids))
        prompt_tokens = len(self.request.prompt_ids)
        return GenerationResult(
            request_id=self.request.request_id,
            text=text,
            token_ids=token_ids,
            finish_reason=finish_reason,
            lossless=self.lossless,
            usage=Usage(
                prompt_tokens=prompt_tokens,
                completion_tokens=len(token_ids),
                total_tokens=prompt_tokens + len(token_ids),
            ),
            timing=timing,
            metrics=Metrics(speculative_decoding=self.counters.metrics()),
            scheduling=self._scheduling(timing.decode_s),
        )

    def _timing(self, num_tokens: int) -> Timing:
        now = time.perf_counter()
        started = self._started_at if self._started_at is not None else now
        first = self._first_token_at if self._first_token_at is not None else now
        decode_s = now - first
        return Timing(
            queue_s=started - self.accepted_at,
            prefill_s=first - started,
            time_to_first_token_s=first - self.accepted_at,
            decode_s=decode_s,
            total_s=now - self.accepted_at,
            # the first token comes out of the prompt's encoding
            tokens_per_second=(num_tokens - 1) / decode_s if num_tokens > 1 and decode_s > 0 else 0.0,
        )

    def _scheduling(self, decode_s: float) -> Scheduling:
        return Scheduling(
            policy=self.request.policy,
            interval=self.interval,
            capacity=self.capacity,
            switches=self.switches,
            loads=self.loads,
            evictions=self.evictions,
            predictions=self.predictions,
            prediction_busy_share=self.predict_us / 1e6 / decode_s if decode_s > 0 else 0.0,
            emulated_storage=self.emulated_storage,
            share=self.counters.share(),
            drafts=self.counters.drafts(),
        )
