"""The Decoder: one request after the other, one draft-and-verify iteration after the other, never waiting.

At every iteration boundary it reads its mailbox, picks the best-ranked draft of the newest announcement (or none), and
goes on. What it picks with, the ranking and the announcement, is whatever has arrived by then.
"""

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import assert_never

import anyio

from memspec_actors.config import ScheduleConfig
from memspec_actors.errors import ActorDied, EngineClosed, MailboxFull, MemSpecError
from memspec_actors.models.session import BoundDraft, DecodeSession, StepOutcome
from memspec_actors.protocols import events
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    Cancel,
    DecoderMessage,
    DraftActivated,
    DraftRanking,
    DraftWarmed,
    Generate,
    IterationReport,
    PredictorMessage,
    ResidencyAck,
    ResidencyAnnounced,
    ResidentDraft,
    SchedulingPoint,
    VerifierStatsMessage,
    WarmDraft,
)
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import FinishReason, TextChunk
from memspec_actors.runtime import Actor, ActorRef, Mailbox, Workers
from memspec_actors.scheduling.pick import desired, pick_draft
from memspec_actors.scheduling.rankers import Policy
from memspec_actors.speculation.statistics import share_kind
from memspec_actors.telemetry.account import RequestAccount
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["Decoder", "DecoderPeers", "DecoderSetup"]

INLINE_DEADLINE_S = 1.0  # inline prediction waits so long for a ranking, then decodes with the one it has


@dataclass(frozen=True, kw_only=True)
class DecoderPeers:
    """Name the actors that the Decoder talks to."""

    predictor: ActorRef[PredictorMessage]
    cache_manager: ActorRef[CacheManagerMessage]
    verifier_stats: ActorRef[VerifierStatsMessage]


@dataclass(frozen=True, kw_only=True)
class DecoderSetup:
    """Give the Decoder what it works with.

    ``runners`` holds the runner of every loaded draft; ``warm_workers`` is a second thread, for warming drafts beside
    decoding. ``max_waiting`` bounds the queue of requests.
    """

    open_session: Callable[[GenerationRequest], DecodeSession]
    policy_of: Callable[[str], Policy]
    runners: Mapping[ResidentDraft, BoundDraft]
    workers: Workers
    warm_workers: Workers
    schedule: ScheduleConfig
    capacity: int
    emulated_storage: bool
    log: EventLog
    max_waiting: int = 64


@dataclass(slots=True)
class _Run:
    """The request being decoded."""

    generate: Generate
    account: RequestAccount
    policy: Policy
    session: DecodeSession
    ranking: DraftRanking | None = None
    interval: int = 0
    iteration: int = 0
    interval_counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # iterations, drafted, accepted, emitted
    cancelled: bool = False

    @property
    def id(self) -> str:
        return self.generate.request.request_id

    @property
    def order(self) -> tuple[str, ...]:
        return self.ranking.order if self.ranking else ()


class Decoder(Actor[DecoderMessage]):
    """Own the sequence, every key/value cache, and the choice of the active draft."""

    def __init__(self, setup: DecoderSetup, peers: DecoderPeers) -> None:
        self._setup = setup
        self._peers = peers
        self._log = setup.log
        self._waiting: deque[tuple[Generate, RequestAccount]] = deque()
        self._run: _Run | None = None
        self._announced: ResidencyAnnounced | None = None
        self._acknowledged = 0
        self._active: ResidentDraft | None = None

    async def started(self) -> None:
        self._peers.cache_manager.tell(ResidencyAck(epoch=0, active=None))

    async def run(self, inbox: Mailbox[DecoderMessage]) -> None:
        try:
            while not inbox.closed:
                if not self._waiting:
                    envelope = await inbox.receive()
                    if envelope is not None:
                        self._note(envelope.message)
                self._read(inbox)
                self._acknowledge()
                if self._waiting:
                    await self._decode(*self._waiting.popleft(), inbox)
        except Exception as error:
            self._fail_all(ActorDied(f"actor {self.name!r} crashed: {error!r}"))
            raise

    async def stopped(self) -> None:
        self._fail_all(EngineClosed("the engine was closed before the request was finished"))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _read(self, inbox: Mailbox[DecoderMessage]) -> None:
        """Take everything that has arrived, without waiting."""
        while (envelope := inbox.receive_nowait()) is not None:
            self._note(envelope.message)

    def _note(self, message: DecoderMessage) -> None:
        match message:
            case Generate():
                self._enqueue(message)
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case DraftRanking():
                self._apply_ranking(message)
            case ResidencyAnnounced():
                if self._run is not None:
                    self._run.account.add_announcement(self._announced, message)
                self._announced = message
            case WarmDraft(draft=draft):
                self.tasks.start_soon(self._warm, draft)
            case _:
                assert_never(message)

    def _enqueue(self, generate: Generate) -> None:
        request, setup = generate.request, self._setup
        account = RequestAccount(
            request=request,
            interval=setup.schedule.interval,
            capacity=setup.capacity,
            emulated_storage=setup.emulated_storage,
            lossless=True,
        )
        self._log.write(
            events.RequestAccepted(
                actor=self.name,
                request_id=request.request_id,
                prompt_tokens=len(request.prompt_ids),
                max_new_tokens=request.max_new_tokens,
                policy=request.policy,
                stop_rule=request.stop_rule,
                accept=request.accept,
                temperature=request.sampling.temperature,
                seed=request.seed,
                lossless=account.lossless,
            )
        )
        self._waiting.append((generate, account))

    def _cancel(self, request_id: str) -> None:
        if self._run is not None and self._run.id == request_id:
            self._run.cancelled = True
        for generate, account in list(self._waiting):
            if generate.request.request_id == request_id:
                self._waiting.remove((generate, account))
                self._finish(generate, account, text="", token_ids=(), reason="cancelled")

    def _apply_ranking(self, ranking: DraftRanking) -> None:
        run = self._run
        if run is None or run.id != ranking.request_id:
            return
        run.ranking = ranking
        run.account.add_ranking(ranking)
        self._log.write(
            events.RankingApplied(actor=self.name, request_id=run.id, interval=ranking.interval, order=ranking.order)
        )

    # --- residency ----------------------------------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        """Let go of whatever the newest announcement leaves out, pick again, and say so."""
        announced, run = self._announced, self._run
        resident = announced.resident if announced else ()
        self._activate(pick_draft(run.order, resident) if run else None)
        if announced is not None and announced.epoch != self._acknowledged:
            self._acknowledged = announced.epoch
            self._peers.cache_manager.tell(ResidencyAck(epoch=announced.epoch, active=self._active))

    def _activate(self, draft: ResidentDraft | None) -> None:
        if draft == self._active:
            return
        previous, self._active = self._active, draft
        run = self._run
        request_id, iteration = (run.id, run.iteration) if run else ("", 0)
        epoch = self._announced.epoch if self._announced else 0
        self._peers.cache_manager.tell(
            DraftActivated(request_id=request_id, iteration=iteration, epoch=epoch, draft=draft, previous=previous)
        )
        self._log.write(
            events.DraftActivatedEvent(
                actor=self.name,
                request_id=request_id or None,
                epoch=epoch,
                draft=draft,
                previous=previous,
                iteration=iteration,
            )
        )
        if run is not None and draft is not None and previous is not None:
            run.account.switches += 1

    async def _warm(self, draft: ResidentDraft) -> None:
        """Bring a draft's cache up to the committed tokens before anybody may pick it."""
        started = perf_counter()
        tokens = 0
        bound = self._setup.runners.get(draft)
        if self._run is not None and bound is not None:
            tokens = await self._setup.warm_workers.run(self._run.session.warm, bound)
        wall_us = (perf_counter() - started) * 1e6
        self._peers.cache_manager.tell(DraftWarmed(draft=draft, tokens=tokens, wall_us=wall_us))

    # --- decoding -----------------------------------------------------------------------------------------------------

    async def _decode(self, generate: Generate, account: RequestAccount, inbox: Mailbox[DecoderMessage]) -> None:
        request = generate.request
        try:
            session = self._setup.open_session(request)
            account.lossless = session.accept.lossless
            run = self._run = _Run(generate, account, self._setup.policy_of(request.policy), session)
            reason = await self._iterate(run, inbox)
        except MemSpecError as error:
            self._fail(generate, error)
        else:
            state = session.state
            self._finish(generate, account, text=state.text, token_ids=tuple(state.token_ids), reason=reason)
        self._run = None
        self._acknowledge()

    async def _iterate(self, run: _Run, inbox: Mailbox[DecoderMessage]) -> FinishReason:
        run.account.start()
        self._schedule(run)
        outcome = await self._setup.workers.run(run.session.prefill)
        run.account.first_token()
        self._emit(run, outcome, None)
        while (reason := outcome.commit.finish_reason) is None:
            waited_us = await self._boundary(run, inbox)
            if inbox.closed:
                raise EngineClosed("the engine was closed before the request was finished")
            if run.cancelled:
                if tail := run.session.state.close():
                    run.generate.sink.chunk(self._chunk(tail, outcome, None))
                return "cancelled"
            started = perf_counter()
            bound = self._setup.runners[self._active] if self._active is not None else None
            outcome = await self._setup.workers.run(run.session.step, bound)
            draft = self._active if outcome.drafted else None
            self._report(run, outcome, draft, waited_us, (perf_counter() - started) * 1e6)
            self._emit(run, outcome, draft)
            run.iteration += 1
        return reason

    async def _boundary(self, run: _Run, inbox: Mailbox[DecoderMessage]) -> float:
        """Stand between two iterations: read, schedule if an interval has ended, pick. Return the time waited in us."""
        self._read(inbox)
        waited_us = 0.0
        if run.iteration and run.iteration % self._setup.schedule.interval == 0:
            self._end_interval(run)
            run.interval += 1
            self._schedule(run)
        if self._setup.schedule.prediction == "inline":
            waited_us = await self._await_ranking(run, inbox)
        self._acknowledge()
        return waited_us

    def _schedule(self, run: _Run) -> None:
        """Send the context of a scheduling point; the ranking comes when it comes."""
        if not run.policy.uses_drafts:
            return
        recent = self._setup.schedule.recent_tokens
        point = SchedulingPoint(
            request_id=run.id,
            interval=run.interval,
            policy=run.policy.name,
            prompt_ids=run.generate.request.prompt_ids,
            recent_ids=tuple(run.session.generated[-recent:]),
        )
        self._peers.predictor.tell(point)

    async def _await_ranking(self, run: _Run, inbox: Mailbox[DecoderMessage]) -> float:
        """Stand still until this interval's ranking is there (inline prediction only)."""
        started = perf_counter()
        with anyio.move_on_after(INLINE_DEADLINE_S):
            while run.policy.uses_drafts and not run.cancelled and not self._is_ranked(run):
                envelope = await inbox.receive()
                if envelope is None:
                    break
                self._note(envelope.message)
        return (perf_counter() - started) * 1e6

    def _is_ranked(self, run: _Run) -> bool:
        return run.ranking is not None and run.ranking.interval >= run.interval

    # --- what others learn --------------------------------------------------------------------------------------------

    def _emit(self, run: _Run, outcome: StepOutcome, draft: ResidentDraft | None) -> None:
        run.generate.sink.chunk(self._chunk(outcome.commit.text, outcome, draft))

    def _chunk(self, text: str, outcome: StepOutcome, draft: ResidentDraft | None) -> TextChunk:
        resident = self._announced.resident if self._announced else ()
        return TextChunk(
            text=text,
            token_ids=outcome.commit.ids,
            draft=draft.name if draft else None,
            resident=tuple(each.name for each in resident),
            accepted=outcome.accepted,
            drafted=outcome.drafted,
        )

    def _report(
        self, run: _Run, outcome: StepOutcome, draft: ResidentDraft | None, waited_us: float, wall_us: float
    ) -> None:
        report = IterationReport(
            request_id=run.id,
            interval=run.interval,
            iteration=run.iteration,
            epoch=self._acknowledged,
            draft=draft,
            desired=desired(run.order),
            drafted=outcome.drafted,
            accepted=outcome.accepted,
            emitted=len(outcome.commit.ids),
            catch_up_tokens=outcome.catch_up_tokens,
            catch_up_us=outcome.catch_up_us,
            draft_us=outcome.draft_us,
            verify_us=outcome.verify_us,
            waited_us=waited_us,
        )
        run.account.add_iteration(report)
        for i, count in enumerate((1, report.drafted, report.accepted, report.emitted)):
            run.interval_counts[i] += count
        with suppress(MailboxFull):  # statistics never slow decoding down
            self._peers.verifier_stats.tell(report)
        if self._log.enabled:
            self._log.write(_iteration_event(self.name, report, len(run.session.tokens), wall_us))

    def _end_interval(self, run: _Run) -> None:
        iterations, drafted, accepted, emitted = run.interval_counts
        run.interval_counts = [0, 0, 0, 0]
        self._log.write(
            events.IntervalFinished(
                actor=self.name,
                request_id=run.id,
                interval=run.interval,
                iterations=iterations,
                drafted=drafted,
                accepted=accepted,
                emitted=emitted,
            )
        )

    def _finish(
        self,
        generate: Generate,
        account: RequestAccount,
        *,
        text: str,
        token_ids: tuple[int, ...],
        reason: FinishReason,
    ) -> None:
        result = account.result(text=text, token_ids=token_ids, finish_reason=reason)
        self._log.write(
            events.RequestFinished(
                actor=self.name,
                request_id=generate.request.request_id,
                finish_reason=reason,
                usage=result.usage,
                timing=result.timing,
                speculative_decoding=result.metrics.speculative_decoding,
                scheduling=result.scheduling,
            )
        )
        generate.sink.finish(result)

    def _fail(self, generate: Generate, error: Exception) -> None:
        self._log.write(
            events.RequestFinished(
                actor=self.name, request_id=generate.request.request_id, finish_reason="error", error=str(error)
            )
        )
        generate.sink.fail(error)

    def _fail_all(self, error: Exception) -> None:
        """Resolve everyone who waits on this Decoder."""
        run, self._run = self._run, None
        if run is not None:
            self._fail(run.generate, error)
        while self._waiting:
            self._fail(self._waiting.popleft()[0], error)


def _iteration_event(actor: str, report: IterationReport, committed: int, wall_us: float) -> events.Iteration:
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
        waited_us=report.waited_us,
        waited_for="prediction" if report.waited_us else None,
    )
