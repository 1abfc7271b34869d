"""Write one request's records to the event log, and keep its books beside."""

import hashlib

import msgspec

from memspec_actors.protocols import events
from memspec_actors.protocols.messages import DraftRanking, IterationReport
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import FinishReason, GenerationResult
from memspec_actors.speculation.statistics import share_kind
from memspec_actors.telemetry.account import RequestAccount
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["RequestRecorder"]


class RequestRecorder:
    """Record what happens to one request; every request that was accepted is finished or failed exactly once."""

    def __init__(self, actor: str, log: EventLog, account: RequestAccount) -> None:
        self.account = account
        self._actor = actor
        self._log = log
        self._id = account.request.request_id
        self._interval = _IntervalCounts()
        self._log_acceptance()

    def ranking(self, ranking: DraftRanking) -> None:
        self.account.add_ranking(ranking)
        self._log.write(
            events.RankingApplied(
                actor=self._actor, request_id=self._id, interval=ranking.interval, order=ranking.order
            )
        )

    def iteration(self, report: IterationReport, *, committed: int, wall_us: float, gap_us: float) -> None:
        """Record an iteration; ``committed`` tokens of prompt and text stand after it."""
        self.account.add_iteration(report)
        self._interval.add(report)
        if self._log.enabled:
            self._log.write(_iteration_event(self._actor, report, committed, wall_us, gap_us))

    def interval_finished(self, interval: int) -> None:
        counts, self._interval = self._interval, _IntervalCounts()
        self._log.write(
            events.IntervalFinished(
                actor=self._actor,
                request_id=self._id,
                interval=interval,
                iterations=counts.iterations,
                drafted=counts.drafted,
                accepted=counts.accepted,
                emitted=counts.emitted,
            )
        )

    def finished(self, *, text: str, token_ids: tuple[int, ...], reason: FinishReason) -> GenerationResult:
        """Draw up and record the result."""
        result = self.account.result(text=text, token_ids=token_ids, finish_reason=reason)
        self._log.write(
            events.RequestFinished(
                actor=self._actor,
                request_id=self._id,
                finish_reason=reason,
                token_digest=_digest(token_ids),
                usage=result.usage,
                timing=result.timing,
                speculative_decoding=result.metrics.speculative_decoding,
                scheduling=result.scheduling,
            )
        )
        return result

    def failed(self, error: Exception) -> None:
        self._log.write(
            events.RequestFinished(actor=self._actor, request_id=self._id, finish_reason="error", error=str(error))
        )

    def _log_acceptance(self) -> None:
        request = self.account.request
        self._log.write(
            events.RequestAccepted(
                actor=self._actor,
                request_id=self._id,
                prompt_tokens=len(request.prompt_ids),
                max_new_tokens=request.max_new_tokens,
                policy=request.policy,
                stop_rule=request.stop_rule,
                accept=request.accept,
                temperature=request.sampling.temperature,
                thresholds=request.thresholds,
                seed=request.seed,
                lossless=request.lossless,
                task_digest=_task_digest(request),
            )
        )


class _IntervalCounts:
    """Sum up one scheduling interval."""

    def __init__(self) -> None:
        self.iterations = self.drafted = self.accepted = self.emitted = 0

    def add(self, report: IterationReport) -> None:
        self.iterations += 1
        self.drafted += report.drafted
        self.accepted += report.accepted
        self.emitted += report.emitted


def _task_digest(request: GenerationRequest) -> str:
    """Name what decides the target's own text, so that requests for the same one can be told from a log."""
    sampling = msgspec.structs.replace(request.sampling, seed=None)
    seed = None if sampling.greedy else request.seed
    return _digest((request.prompt_ids, request.max_new_tokens, sampling, seed))


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def _iteration_event(
    actor: str, report: IterationReport, committed: int, wall_us: float, gap_us: float
) -> events.Iteration:
    return events.Iteration(
        actor=actor,
        request_id=report.request_id,
        interval=report.interval,
        epoch=report.epoch,
        iteration=report.iteration,
        draft=report.draft,
        desired=report.desired,
        share=share_kind(report.draft.name if report.draft else None, report.desired),
        drafted=report.drafted,
        accepted=report.accepted,
        emitted=report.emitted,
        committed=committed,
        catch_up_tokens=report.catch_up_tokens,
        catch_up_us=report.catch_up_us,
        draft_us=report.draft_us,
        verify_us=report.verify_us,
        wall_us=wall_us,
        gap_us=gap_us,
        waited_us=report.waited_us,
        waited_for=report.waited_for,
        departures=len(report.departures),
    )
