"""The books of one request, and of one domain, kept from iterations."""

from dataclasses import dataclass

from memspec_actors.errors import UsageError
from memspec_actors.protocols.events import Iteration, RequestAccepted, RequestFinished
from memspec_actors.protocols.results import SpeculativeMetrics
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.telemetry.summary.figures import DomainSummary, RequestSummary, TimeSpent

__all__ = ["DomainBook", "RequestBook", "add_iteration"]


def add_iteration(counters: SpeculationCounters, event: Iteration) -> None:
    """Add the iteration of a record, as the run itself added it. Raises UsageError for one that cannot have been."""
    own = event.emitted - event.accepted  # one token is the target's own, unless the text ended before it
    most = event.drafted if event.draft is not None else 0
    if not (0 <= event.accepted <= event.drafted <= most and own in (0, 1) and 0 <= event.departures <= event.accepted):
        raise UsageError(
            f"iteration {event.iteration} of request {event.request_id} (seq {event.seq}) cannot have been: of "
            f"{event.drafted} drafted tokens {event.accepted} accepted, {event.departures} of them departures, "
            f"{event.emitted} emitted; the log is damaged"
        )
    counters.add(
        draft=None if event.draft is None else event.draft.name,
        share=event.share,
        drafted=event.drafted,
        accepted=event.accepted,
        emitted=event.emitted,
        work_us=event.draft_us + event.verify_us,
        catch_up_us=event.catch_up_us,
        waited_us=event.waited_us,
        waited_for=event.waited_for,
        departures=event.departures,
    )


class RequestBook:
    """Add up the records of one request; a log that leaves iterations out has its figures from its finish record."""

    def __init__(self, accepted: RequestAccepted, queue_depth: int) -> None:
        self.loads = self.evictions = self.predictions = 0
        self.ranking_cpu_us = 0.0
        self._accepted = accepted
        self._queue_depth = queue_depth
        self._counters = SpeculationCounters()
        self._spent = _Microseconds()
        self._first_token_at: float | None = None
        self._emitted = self._switches = 0
        self._last_draft: str | None = None
        self._largest_gap_us = 0.0

    def iterate(self, event: Iteration) -> None:
        if self._first_token_at is None:
            self._first_token_at = event.mono - (event.wall_us + event.gap_us) / 1e6
        add_iteration(self._counters, event)
        self._spent.add(event)
        self._emitted += event.emitted
        self._largest_gap_us = max(self._largest_gap_us, event.gap_us)
        if event.draft is not None:
            self._switches += self._last_draft not in (None, event.draft.name)
            self._last_draft = event.draft.name

    def summary(self, finished: RequestFinished | None) -> RequestSummary:
        """Close the books; ``finished`` None if the log ends before the request does."""
        usage, timing = (finished.usage, finished.timing) if finished else (None, None)
        told = finished.scheduling if finished and self._first_token_at is None else None
        accepted_at = self._accepted.mono
        first_s = 0.0 if self._first_token_at is None else self._first_token_at - accepted_at
        spent = self._spent.seconds()
        decode_s = timing.decode_s if timing else spent.total_s
        return RequestSummary(
            request_id=self._accepted.request_id or "",
            policy=self._accepted.policy,
            finish_reason=finished.finish_reason if finished else None,
            prompt_tokens=self._accepted.prompt_tokens,
            tokens=usage.completion_tokens if usage else self._emitted + (self._first_token_at is not None),
            tokens_per_second=timing.tokens_per_second if timing else _rate(self._emitted, decode_s),
            queue_depth=self._queue_depth,
            queue_s=timing.queue_s if timing else 0.0,
            prefill_s=timing.prefill_s if timing else first_s,
            time_to_first_token_s=timing.time_to_first_token_s if timing else first_s,
            decode_s=decode_s,
            speculative_decoding=self._metrics(finished),
            share=told.share if told else self._counters.share(),
            time=spent,
            drafts=told.drafts if told else self._counters.drafts(),
            switches=told.switches if told else self._switches,
            loads=self.loads,
            evictions=self.evictions,
            predictions=self.predictions,
            prediction_busy_share=_rate(self.ranking_cpu_us / 1e6, decode_s),
            largest_gap_ms=self._largest_gap_us / 1e3,
        )

    def _metrics(self, finished: RequestFinished | None) -> SpeculativeMetrics:
        told = finished.speculative_decoding if finished and self._first_token_at is None else None
        return told or self._counters.metrics()


class DomainBook:
    """Add up the iterations in which one draft was the preferred one."""

    def __init__(self) -> None:
        self._counters = SpeculationCounters()
        self._iterations = self._tokens = 0

    def iterate(self, event: Iteration) -> None:
        add_iteration(self._counters, event)
        self._iterations += 1
        self._tokens += event.emitted

    def summary(self) -> DomainSummary:
        metrics = self._counters.metrics()
        return DomainSummary(
            iterations=self._iterations,
            tokens=self._tokens,
            mean_acceptance_length=metrics.mean_acceptance_length,
            draft_acceptance_rate=metrics.draft_acceptance_rate,
            share=self._counters.share(),
        )


@dataclass(slots=True)
class _Microseconds:
    """Add up what iterations spent their time on."""

    draft: float = 0.0
    verify: float = 0.0
    catch_up: float = 0.0
    waiting: float = 0.0
    gap: float = 0.0
    wall: float = 0.0

    def add(self, event: Iteration) -> None:
        self.draft += event.draft_us
        self.verify += event.verify_us
        self.catch_up += event.catch_up_us
        self.waiting += event.waited_us
        self.gap += event.gap_us
        self.wall += event.wall_us

    def seconds(self) -> TimeSpent:
        return TimeSpent(
            draft_s=self.draft / 1e6,
            verify_s=self.verify / 1e6,
            catch_up_s=self.catch_up / 1e6,
            waiting_s=self.waiting / 1e6,
            between_s=(self.gap - self.waiting) / 1e6,
            other_s=(self.wall - self.draft - self.verify - self.catch_up) / 1e6,
        )


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
