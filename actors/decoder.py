"""The Decoder: one request after the other, one draft-and-verify iteration after the other, never waiting.

At every iteration boundary it reads its mailbox, picks the best-ranked draft of the newest announcement (or none), and
goes on. What it picks with, the ranking and the announcement, is whatever has arrived by then. Only warming a draft
begins beside an iteration.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import anyio

from memspec_actors.actors.run import Run, Wait, Waiting
from memspec_actors.config import ScheduleConfig
from memspec_actors.errors import ActorDied, EngineClosed, MailboxFull, MemSpecError
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.events import DraftActivatedEvent, ResidencyAcknowledged
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    Cancel,
    DecoderMessage,
    DraftActivated,
    DraftRanking,
    DraftWarmed,
    Generate,
    IterationReport,
    NowServing,
    PredictorMessage,
    ResidencyAck,
    ResidencyAnnounced,
    ResidentDraft,
    ThresholdsPublished,
    VerifierStatsMessage,
    WaitedFor,
    WarmDraft,
)
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import FinishReason
from memspec_actors.runtime import Actor, ActorRef, Mailbox, Workers, current_trace_id, new_trace_id, tracing
from memspec_actors.runtime.held import Held
from memspec_actors.scheduling.pick import pick_draft
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.residency import ResidencyCounts
from memspec_actors.telemetry.account import RequestAccount
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.recorder import RequestRecorder

__all__ = ["Decoder", "DecoderPeers", "DecoderSetup"]

# A policy or a rule that waits by definition waits so long in an interval, then goes on with what it has.
DEADLINE_S: dict[WaitedFor, float] = {"prediction": 1.0, "load": 60.0, "thresholds": 1.0}


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
    decoding.
    """

    open_session: Callable[[GenerationRequest], DecodeSession]
    policy_of: Callable[[str], Policy]
    runners: Mapping[ResidentDraft, BoundDraft]
    workers: Workers
    warm_workers: Workers
    schedule: ScheduleConfig
    capacity: int
    residency_counts: Callable[[], ResidencyCounts]
    emulated_storage: bool
    log: EventLog


class Decoder(Actor[DecoderMessage]):
    """Own the sequence, every key/value cache, and the choice of the active draft."""

    def __init__(self, setup: DecoderSetup, peers: DecoderPeers) -> None:
        self._setup = setup
        self._peers = peers
        self._reports = Held(self._tell_statistics)
        self._waiting: deque[Waiting] = deque()
        self._served: Waiting | None = None  # whose turn it is, from before its session is opened
        self._run: Run | None = None
        self._is_idle = True  # there is no request, or it stands still for a load
        self._newest = self._announced = ResidencyAnnounced(epoch=0, resident=(), unavailable=())
        self._acknowledged = 0
        self._reading: set[ResidentDraft] = set()  # drafts that are being brought up to date in the other thread
        self._active: ResidentDraft | None = None

    async def started(self) -> None:
        self._acknowledge(0)

    async def run(self, inbox: Mailbox[DecoderMessage]) -> None:
        try:
            while not inbox.closed:
                if not self._waiting and (envelope := await inbox.receive()) is not None:
                    await self.handle(envelope)
                await self._read(inbox)
                self._adopt()
                self._settle(None)
                if self._waiting:
                    self._served = generate, recorder, trace_id = self._waiting.popleft()
                    with tracing(trace_id):
                        await self._decode(generate, recorder, inbox)
        except Exception as error:
            self._fail_all(ActorDied(f"actor {self.name!r} crashed: {error!r}"))
            raise

    async def stopped(self) -> None:
        self._fail_all(EngineClosed("the engine was closed before the request was finished"))

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _read(self, inbox: Mailbox[DecoderMessage]) -> None:
        """Take everything that has arrived, without waiting."""
        while (envelope := inbox.receive_nowait()) is not None:
            await self.handle(envelope)

    async def receive(self, message: DecoderMessage) -> None:
        match message:
            case Generate():
                recorder = RequestRecorder(self.name, self._setup.log, self._account(message))
                self._waiting.append(Waiting(message, recorder, current_trace_id() or new_trace_id()))
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case DraftRanking():
                if self._run is not None and self._run.id == message.request_id:
                    self._run.take_ranking(message)
            case ThresholdsPublished():
                if self._run is not None and self._run.id == message.request_id:
                    self._run.take_thresholds(message)
            case ResidencyAnnounced():
                self._newest = message
            case WarmDraft(draft=draft):
                self.tasks.start_soon(self._warm, draft)
            case _:
                assert_never(message)

    def _account(self, generate: Generate) -> RequestAccount:
        return RequestAccount(
            request=generate.request,
            interval=self._setup.schedule.interval,
            capacity=self._setup.capacity,
            emulated_storage=self._setup.emulated_storage,
            submitted_at=generate.submitted_at,
            residency_counts=self._setup.residency_counts,
        )

    def _cancel(self, request_id: str) -> None:
        if self._run is not None and self._run.id == request_id:
            self._run.cancelled = True
        for waiting in list(self._waiting):
            if waiting.generate.request.request_id == request_id:
                self._waiting.remove(waiting)
                waiting.generate.sink.finish(waiting.recorder.finished(text="", token_ids=(), reason="cancelled"))

    # --- residency ----------------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Go by the newest announcement, once no draft that it leaves out is being read with."""
        if self._reading.issubset(self._newest.resident):
            revoked = set(self._announced.resident).difference(self._newest.resident)
            self._announced = self._newest
            if revoked and self._run is not None:
                self._run.session.keep({draft for draft in self._setup.runners if draft not in revoked})

    def _settle(self, draft: ResidentDraft | None) -> None:
        """Go on with a draft of the adopted announcement, let go of what that leaves out, and acknowledge it."""
        self._activate(draft)
        if self._announced.epoch != self._acknowledged:
            self._acknowledge(self._announced.epoch)

    def _acknowledge(self, epoch: int) -> None:
        self._acknowledged = epoch
        self._peers.cache_manager.tell(ResidencyAck(epoch=epoch, active=self._active))
        self._setup.log.write(ResidencyAcknowledged(actor=self.name, epoch=epoch, active=self._active))

    def _activate(self, draft: ResidentDraft | None) -> None:
        if draft == self._active:
            return
        run, previous, self._active = self._run, self._active, draft
        self._peers.cache_manager.tell(DraftActivated(draft=draft))
        self._setup.log.write(
            DraftActivatedEvent(
                actor=self.name,
                request_id=run.id if run else None,
                epoch=self._announced.epoch,
                draft=draft,
                previous=previous,
                iteration=run.iteration if run else 0,
            )
        )

    async def _warm(self, draft: ResidentDraft) -> None:
        """Bring a draft's cache up to the committed tokens before anybody may pick it."""
        bound = self._setup.runners.get(draft)
        if self._run is not None and bound is not None:
            await self._setup.warm_workers.run(self._run.session.warm, bound)
        self._peers.cache_manager.tell(DraftWarmed(draft=draft))

    def _let_read_along(self, run: Run, drafts: Iterable[ResidentDraft]) -> None:
        """Bring resident drafts that are not at work up to date, beside decoding: a switch then has less to do."""
        for draft in drafts:
            if draft not in (self._active, *self._reading):
                self._reading.add(draft)
                self.tasks.start_soon(self._read_along, draft, run.session)

    async def _read_along(self, draft: ResidentDraft, session: DecodeSession) -> None:
        await self._setup.warm_workers.run(session.warm, self._setup.runners[draft])
        self._reading.remove(draft)
        if self._is_idle:  # there comes no iteration boundary soon
            self._adopt()
            self._settle(None)

    # --- decoding -----------------------------------------------------------------------------------------------------

    async def _decode(self, generate: Generate, recorder: RequestRecorder, inbox: Mailbox[DecoderMessage]) -> None:
        request = generate.request
        try:
            session = self._setup.open_session(request)
            run = self._run = Run(generate, recorder, self._setup.policy_of(request.policy), session)
            self._is_idle = False
            reason = await self._iterate(run, inbox)
        except MemSpecError as error:
            recorder.failed(error)
            generate.sink.fail(error)
        else:
            run.finish(reason)
        self._reports.release()
        self._run = self._served = None
        self._is_idle = True
        self._peers.cache_manager.tell(NowServing(request_id=None))
        self._settle(None)

    async def _iterate(self, run: Run, inbox: Mailbox[DecoderMessage]) -> FinishReason:
        run.recorder.account.start()
        self._schedule(run)
        if run.adapts:
            self._peers.verifier_stats.tell(run.sequence_started())
        outcome = await self._setup.workers.run(run.session.prefill)
        run.recorder.account.first_token()
        run.emit(outcome, None, self._announced)
        left = anyio.current_time()
        while (reason := outcome.commit.finish_reason) is None:
            wait = await self._boundary(run, inbox)
            if inbox.closed:
                raise EngineClosed("the engine was closed before the request was finished")
            if run.cancelled:
                return run.end_early(self._announced)
            started = anyio.current_time()
            bound = self._setup.runners[self._active] if self._active is not None else None
            outcome = await self._setup.workers.run(run.session.step, bound)
            draft = self._active if outcome.drafted else None
            ended = anyio.current_time()
            report = run.report(outcome, draft, epoch=self._acknowledged, wait=wait)
            run.recorder.iteration(
                report,
                committed=len(run.session.tokens),
                wall_us=(ended - started) * 1e6,
                gap_us=(started - left) * 1e6,
            )
            self._reports.add(report)
            if run.adapts_in_step:
                self._reports.release()
            run.remember(report, outcome.shadows)
            run.emit(outcome, draft, self._announced)
            run.iteration += 1
            left = ended
        return reason

    async def _boundary(self, run: Run, inbox: Mailbox[DecoderMessage]) -> Wait | None:
        """Stand between two iterations: read, schedule if an interval has ended, pick. Tell whether time was lost."""
        await self._read(inbox)
        self._adopt()
        if run.interval_is_over(self._setup.schedule.interval):
            run.recorder.interval_finished(run.interval)
            run.begin_interval()
            self._schedule(run)
            if run.policy.reads_along:
                self._let_read_along(run, self._announced.resident)
        elif run.policy.reacts and run.has_news:
            self._schedule(run)
        if to_hear := run.take_to_hear():
            self._let_read_along(run, [draft for draft in self._announced.resident if draft.name in to_hear])
        wait = await self._stand_still(run, inbox)
        self._settle(pick_draft(run.order, self._announced.resident))
        return wait

    def _tell_statistics(self, report: IterationReport) -> None:
        with suppress(MailboxFull):  # they never slow decoding down
            self._peers.verifier_stats.tell(report)

    def _schedule(self, run: Run) -> None:
        """Send the context of a scheduling point; the ranking comes when it comes.

        Whose text it is for is said every time: a CacheManager that died of hearing it takes no ranking otherwise.
        """
        self._peers.cache_manager.tell(NowServing(request_id=run.id))
        if run.policy.uses_drafts:
            recent_tokens = self._setup.schedule.recent_tokens
            self._peers.predictor.tell(run.scheduling_point(recent_tokens, self._announced, self._active))

    async def _stand_still(self, run: Run, inbox: Mailbox[DecoderMessage]) -> Wait | None:
        """Wait for what the policy or the rules wait for by definition; return None if nothing was missing."""
        started, waited_for = anyio.current_time(), None
        for what in self._waits_for(run):
            if run.misses(what, self._newest):
                await self._await(what, run, inbox)
                waited_for = what
        return Wait(waited_for, (anyio.current_time() - started) * 1e6) if waited_for else None

    def _waits_for(self, run: Run) -> tuple[WaitedFor, ...]:
        thresholds: tuple[WaitedFor, ...] = ("thresholds",) if run.adapts_in_step else ()
        if run.policy.waits_for_load:
            return *thresholds, "prediction", "load"
        if run.policy.uses_drafts and self._setup.schedule.prediction == "inline":
            return *thresholds, "prediction"
        return thresholds

    async def _await(self, what: WaitedFor, run: Run, inbox: Mailbox[DecoderMessage]) -> None:
        self._is_idle = what == "load"
        with anyio.move_on_after(DEADLINE_S[what]) as deadline:
            while not run.cancelled and run.misses(what, self._newest):
                if what == "load":
                    self._adopt()
                    self._settle(None)  # holds no draft meanwhile: it may be the one whose room is needed
                envelope = await inbox.receive()
                if envelope is None:
                    break
                await self.handle(envelope)
        self._is_idle = False
        self._adopt()
        if deadline.cancelled_caught:
            run.given_up[what] = run.interval

    def _fail_all(self, error: Exception) -> None:
        """Resolve everyone who waits on this Decoder."""
        served, self._run, self._served = self._served, None, None
        for each in [*([] if served is None else [served]), *self._waiting]:
            each.recorder.failed(error)
            each.generate.sink.fail(error)
        self._waiting.clear()
