"""The Decoder: one request after the other, one draft-and-verify iteration after the other, never waiting.

At every iteration boundary it reads its mailbox, picks the best-ranked draft of the newest announcement (or none), and
goes on. What it picks with, the ranking and the announcement, is whatever has arrived by then. Beside an iteration it
begins to warm drafts, and lets go of those that are not at work.
"""

from contextlib import suppress
from functools import partial
from typing import assert_never

import anyio

from memspec_actors.actors.decoding.drafts_in_use import DraftsInUse
from memspec_actors.actors.decoding.requests import Accepted, RequestQueue
from memspec_actors.actors.decoding.run import Run
from memspec_actors.actors.decoding.setup import DecoderPeers, DecoderSetup
from memspec_actors.actors.decoding.standing_still import stand_still
from memspec_actors.errors import ActorDied, EngineClosed, MailboxFull, MemSpecError
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.protocols.messages import (
    Cancel,
    DecoderMessage,
    DraftRanking,
    Generate,
    IterationReport,
    ResidencyAnnounced,
    ThresholdsPublished,
    WarmDraft,
)
from memspec_actors.protocols.results import FinishReason
from memspec_actors.runtime import Actor, Mailbox, current_trace_id, new_trace_id, tracing
from memspec_actors.runtime.held import Held
from memspec_actors.scheduling.waits import Wait
from memspec_actors.telemetry.account import RequestAccount
from memspec_actors.telemetry.recorder import RequestRecorder

__all__ = ["Decoder"]


class Decoder(Actor[DecoderMessage]):
    """Own the sequence, every key/value cache, and the choice of the active draft."""

    def __init__(self, setup: DecoderSetup, peers: DecoderPeers) -> None:
        self._setup = setup
        self._peers = peers
        self._reports = Held(self._tell_statistics)
        self._queue = RequestQueue()
        self._run: Run | None = None
        self._drafts = DraftsInUse(self, setup, peers.cache_manager)

    async def started(self) -> None:
        self._drafts.acknowledge()

    async def run(self, inbox: Mailbox[DecoderMessage]) -> None:
        while not inbox.closed:
            if self._queue.is_empty:
                await self._take(inbox)
            await self._read(inbox)
            self._drafts.adopt()
            self._drafts.settle(())
            if not self._queue.is_empty:
                accepted = self._queue.serve_next()
                with tracing(accepted.trace_id):
                    await self._decode(accepted, inbox)

    async def stopped(self) -> None:
        self._queue.fail_all(_closed() if self.crash is None else self._obituary(self.crash))

    def _obituary(self, crash: Exception) -> ActorDied:
        return ActorDied(f"actor {self.name!r} crashed: {crash!r}")

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _take(self, inbox: Mailbox[DecoderMessage]) -> bool:
        """Wait for the next message and take it; return False if none comes any more."""
        if (envelope := await inbox.receive()) is None:
            return False
        await self.handle(envelope)
        return True

    async def _read(self, inbox: Mailbox[DecoderMessage]) -> None:
        """Take everything that has arrived, without waiting."""
        while (envelope := inbox.receive_nowait()) is not None:
            await self.handle(envelope)

    async def receive(self, message: DecoderMessage) -> None:
        match message:
            case Generate(sink=sink):
                try:
                    self._queue.add(self._accept(message))
                except Exception as error:  # nobody else knows yet that somebody waits
                    sink.fail(self._obituary(error))
                    raise
            case Cancel(request_id=request_id):
                self._cancel(request_id)
            case DraftRanking():
                if self._run is not None and self._run.id == message.request_id:
                    self._run.take_ranking(message)
            case ThresholdsPublished():
                if self._run is not None and self._run.id == message.request_id:
                    self._run.take_thresholds(message)
            case ResidencyAnnounced():
                self._drafts.hear(message)
            case WarmDraft(draft=draft):
                self._drafts.warm(draft)
            case _:
                assert_never(message)

    def _accept(self, generate: Generate) -> Accepted:
        account = RequestAccount(
            request=generate.request,
            interval=self._setup.schedule.interval,
            capacity=self._setup.capacity,
            emulated_storage=self._setup.emulated_storage,
            submitted_at=generate.submitted_at,
            residency_counts=self._setup.residency_counts,
        )
        recorder = RequestRecorder(self.name, self._setup.log, account)
        return Accepted(generate.request, generate.sink, recorder, current_trace_id() or new_trace_id())

    def _cancel(self, request_id: str) -> None:
        if self._run is not None and self._run.id == request_id:
            self._run.cancelled = True
        self._queue.cancel(request_id)

    # --- decoding -----------------------------------------------------------------------------------------------------

    async def _decode(self, accepted: Accepted, inbox: Mailbox[DecoderMessage]) -> None:
        request = accepted.request
        try:
            session = self._setup.open_session(request)
            run = self._run = Run(accepted, self._setup.policy_of(request.policy), session, self._setup.schedule)
            reason = await self._iterate(run, inbox)
        except MemSpecError as error:
            accepted.fail(error)
        else:
            run.finish(reason)
        self._reports.release()
        self._run = None
        self._queue.served()
        self._drafts.serve(None)
        self._drafts.settle(())

    async def _iterate(self, run: Run, inbox: Mailbox[DecoderMessage]) -> FinishReason:
        """Take in the prompt, then draft and verify until the text ends; return why it does."""
        outcome = await self._begin(run)
        while (reason := outcome.commit.finish_reason) is None:
            wait = await self._boundary(run, inbox)
            if inbox.closed:
                raise _closed()
            if run.cancelled:
                return run.end_early(self._drafts.leases.current.resident)
            outcome = await self._step(run, wait)
        return reason

    async def _begin(self, run: Run) -> StepOutcome:
        """Have the prompt ranked for, and take it in meanwhile."""
        account = run.accepted.recorder.account
        account.start()
        self._schedule(run)
        if run.adapts:
            self._peers.verifier_stats.tell(run.sequence_started())
        outcome = await self._setup.workers.run(run.session.prefill)
        account.first_token()
        run.accepted.emit(outcome, None, self._drafts.leases.current.resident)
        run.ended_at = anyio.current_time()
        return outcome

    async def _step(self, run: Run, wait: Wait | None) -> StepOutcome:
        """Run one iteration with the draft at work, if any; ``wait`` was before it. Tell everybody what came of it."""
        leases = self._drafts.leases
        started, left = anyio.current_time(), run.ended_at
        bound = self._setup.runners[leases.active] if leases.active is not None else None
        outcome = await self._setup.workers.run(run.session.step, bound)
        draft = leases.active if outcome.drafted else None
        run.ended_at = anyio.current_time()
        report = run.report(outcome, draft, epoch=leases.acknowledged, wait=wait)
        run.accepted.recorder.iteration(
            report,
            committed=len(run.session.tokens),
            wall_us=(run.ended_at - started) * 1e6,
            gap_us=(started - left) * 1e6,
        )
        self._reports.add(report)
        if run.adapts_in_step:
            self._reports.release()
        run.remember(report, outcome.shadows)
        run.accepted.emit(outcome, draft, leases.current.resident)
        run.iteration += 1
        return outcome

    async def _boundary(self, run: Run, inbox: Mailbox[DecoderMessage]) -> Wait | None:
        """Stand between two iterations: read, schedule if an interval has ended, pick. Tell whether time was lost."""
        await self._read(inbox)
        self._drafts.adopt()
        resident = self._drafts.leases.current.resident
        if run.interval.is_over(run.iteration, run.num_generated):
            run.accepted.recorder.interval_finished(run.interval.number)
            run.interval.begin_next(run.iteration, run.num_generated)
            self._schedule(run)
            if run.policy.reads_along:
                self._drafts.let_read_along(resident)
        elif run.policy.hears and run.experience.has_news:
            self._schedule(run)
        if to_hear := run.take_to_hear():
            self._drafts.let_read_along(draft for draft in resident if draft.name in to_hear)
        wait = await stand_still(run, self._drafts, partial(self._take, inbox)) if run.waits_for else None
        self._drafts.settle(run.order)
        return wait

    def _tell_statistics(self, report: IterationReport) -> None:
        with suppress(MailboxFull):  # they never slow decoding down
            self._peers.verifier_stats.tell(report)

    def _schedule(self, run: Run) -> None:
        """Send the context of a scheduling point; the ranking comes when it comes."""
        self._drafts.serve(run)
        if run.policy.uses_drafts:
            leases = self._drafts.leases
            self._peers.predictor.tell(run.scheduling_point(leases.current, leases.active))


def _closed() -> EngineClosed:
    return EngineClosed("the engine was closed before the request was finished")
