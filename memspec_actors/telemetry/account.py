"""Keep the books of one request while it runs, and draw up its result."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from memspec_actors.protocols.messages import DraftRanking, IterationReport
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import (
    FinishReason,
    GenerationResult,
    Metrics,
    Scheduling,
    Timing,
    Usage,
)
from memspec_actors.scheduling.residency_counts import ResidencyCounts
from memspec_actors.speculation.statistics import SpeculationCounters

__all__ = ["RequestAccount"]


@dataclass(slots=True, kw_only=True)
class RequestAccount:
    """Count and time one request, by the event loop's clock.

    ``residency_counts`` gives the loads finished and the drafts freed so far; the request's own are those since its
    start. A switch is a drafted iteration with another draft than the last drafted one.
    """

    request: GenerationRequest
    interval: int
    capacity: int
    emulated_storage: bool
    submitted_at: float
    residency_counts: Callable[[], ResidencyCounts]
    switches: int = 0
    predictions: int = 0
    ranking_cpu_us: float = 0.0
    counters: SpeculationCounters = field(default_factory=SpeculationCounters)
    _counts_before: ResidencyCounts | None = None
    _last_draft: str | None = None
    _startup_tokens: int = 0
    _startup_s: float = 0.0
    _started_at: float | None = None
    _first_token_at: float | None = None

    def start(self) -> None:
        """Leave the queue: the prompt is encoded from now on."""
        self._started_at = anyio.current_time()
        self._counts_before = self.residency_counts()

    def first_token(self) -> None:
        """End the prompt's encoding: steady-state decoding begins."""
        self._first_token_at = anyio.current_time()

    def add_ranking(self, ranking: DraftRanking) -> None:
        self.predictions += 1
        self.ranking_cpu_us += ranking.cpu_us

    def add_iteration(self, report: IterationReport) -> None:
        self.counters.add_report(report)
        if self._last_draft is None and self._first_token_at is not None:
            self._add_startup(report, self._first_token_at)
        if report.draft is not None:
            self.switches += self._last_draft not in (None, report.draft.name)
            self._last_draft = report.draft.name

    def _add_startup(self, report: IterationReport, first_token_at: float) -> None:
        """Count an iteration that no draft has run before: all of it if none runs in it, else the wait before it."""
        if report.draft is None:
            self._startup_tokens += report.emitted
            self._startup_s = anyio.current_time() - first_token_at
        else:
            self._startup_s += report.waited_us / 1e6

    def result(self, *, text: str, token_ids: tuple[int, ...], finish_reason: FinishReason) -> GenerationResult:
        """Draw up the result, as of now."""
        timing = self._timing(len(token_ids))
        prompt_tokens = len(self.request.prompt_ids)
        return GenerationResult(
            request_id=self.request.request_id,
            text=text,
            token_ids=token_ids,
            finish_reason=finish_reason,
            lossless=self.request.lossless,
            usage=Usage(
                prompt_tokens=prompt_tokens,
                completion_tokens=len(token_ids),
                total_tokens=prompt_tokens + len(token_ids),
            ),
            timing=timing,
            metrics=Metrics(speculative_decoding=self.counters.metrics(), departures=self.counters.departures()),
            scheduling=self._scheduling(timing.decode_s),
        )

    def _timing(self, num_tokens: int) -> Timing:
        now = anyio.current_time()
        started = self._started_at if self._started_at is not None else now
        first = self._first_token_at if self._first_token_at is not None else now
        decode_s = now - first
        return Timing(
            queue_s=started - self.submitted_at,
            prefill_s=first - started,
            time_to_first_token_s=first - self.submitted_at,
            decode_s=decode_s,
            total_s=now - self.submitted_at,
            # the first token comes out of the prompt's encoding
            tokens_per_second=(num_tokens - 1) / decode_s if num_tokens > 1 and decode_s > 0 else 0.0,
        )

    def _scheduling(self, decode_s: float) -> Scheduling:
        now = self.residency_counts()
        before = self._counts_before or now
        drafted = self._last_draft is not None
        return Scheduling(
            policy=self.request.policy,
            interval=self.interval,
            capacity=self.capacity,
            switches=self.switches,
            loads=now.loads - before.loads,
            evictions=now.evictions - before.evictions,
            wasted_loads=now.wasted - before.wasted,
            predictions=self.predictions,
            prediction_busy_share=self.ranking_cpu_us / 1e6 / decode_s if decode_s > 0 else 0.0,
            emulated_storage=self.emulated_storage,
            startup_tokens=self._startup_tokens if drafted else 0,
            startup_s=self._startup_s if drafted else 0.0,
            share=self.counters.share(),
            drafts=self.counters.drafts(),
        )
