"""The CacheManager: keep the right drafts in memory. A thin shell around the residency state machine."""

import asyncio
from collections.abc import Callable, Iterable
from typing import assert_never

from memspec_actors.errors import UsageError
from memspec_actors.protocols.messages import (
    BackoffPassed,
    CacheManagerMessage,
    CancelLoad,
    DecoderMessage,
    DraftActivated,
    DraftRanking,
    DraftWarmed,
    GetResidency,
    LoadCancelled,
    LoadDraft,
    LoaderMessage,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    NowServing,
    ReleaseDraft,
    ResidencyAck,
    ResidencyAnnounced,
    SteerDraft,
    WarmDraft,
)
from memspec_actors.protocols.results import ResidencySnapshot
from memspec_actors.runtime import Actor, ActorRef, Envelope, Mailbox, tracing
from memspec_actors.scheduling.instructions import (
    AbortLoad,
    Announce,
    Failed,
    Freed,
    Instruction,
    Revoked,
    StartLoad,
    Warm,
)
from memspec_actors.scheduling.residency import Residency
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.residency_events import heard_event, residency_event

__all__ = ["CacheManager", "Heard"]

# What the state machine hears of.
Heard = (
    DraftRanking
    | NowServing
    | ResidencyAck
    | DraftActivated
    | DraftWarmed
    | LoadFinished
    | LoadFailed
    | LoadCancelled
    | BackoffPassed
)


class CacheManager(Actor[CacheManagerMessage]):
    """Own the residency state machine and do what it says, in its order.

    ``residency`` outlives a restart of the actor: its handlers are atomic, so a new incarnation goes on where the last
    one was. So does ``unheard``, which is empty at first: what killed the last one before anything came of it is heard
    once more, for nobody says it again. ``on_progress`` hears how far loads are.
    """

    def __init__(
        self,
        *,
        residency: Residency,
        unheard: list[Heard],
        myself: ActorRef[CacheManagerMessage],
        decoder: ActorRef[DecoderMessage],
        loader: ActorRef[LoaderMessage],
        log: EventLog,
        on_progress: Callable[[LoadProgress], None] | None = None,
    ) -> None:
        self._residency = residency
        self._unheard = unheard
        self._myself = myself
        self._decoder = decoder
        self._loader = loader
        self._log = log
        self._on_progress = on_progress
        self._timer: asyncio.TimerHandle | None = None
        self._unloading: dict[Envelope[CacheManagerMessage], str] = {}  # who waits until which draft has left

    async def started(self) -> None:
        self._set_timer()

    async def run(self, inbox: Mailbox[CacheManagerMessage]) -> None:
        again = tuple(self._unheard)
        self._unheard.clear()  # what kills this one, too, is given up
        for message in again:
            self._carry_out(message, self._decide(message))
        await super().run(inbox)

    async def stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def handle(self, envelope: Envelope[CacheManagerMessage]) -> None:
        """Handle a message and answer it at once; an unload only when its draft has left memory, or is wanted again."""
        with tracing(envelope.trace_id):
            answer = await self.receive(envelope.message)
        match envelope.message:
            case SteerDraft(wish="unload", draft=draft) if self._residency.is_leaving(draft):
                self._unloading[envelope] = draft
            case _:
                envelope.answer(answer)
        self._answer_unloads()

    async def receive(self, message: CacheManagerMessage) -> ResidencySnapshot | UsageError | None:
        match message:
            case SteerDraft():
                return self._steer(message)
            case GetResidency():
                return self._residency.snapshot(_now())
            case LoadProgress():
                if self._on_progress is not None:
                    self._on_progress(message)
            case DraftRanking(request_id=request_id) if not self._residency.serves(request_id):
                pass  # a finished request wishes nothing any more
            case _:
                self._unheard.append(message)
                instructions = self._decide(message)
                self._unheard.clear()
                self._carry_out(message, instructions)
        return None

    def _decide(self, message: Heard) -> Iterable[Instruction]:
        residency, now = self._residency, _now()
        match message:
            case NowServing(request_id=request_id):
                return residency.on_request(request_id, now)
            case DraftRanking():
                return residency.on_ranking(message.order, message.scores, now, message.depth)
            case ResidencyAck():
                return residency.on_ack(message.epoch, message.active, now)
            case DraftActivated():
                return residency.on_activated(message.draft)
            case DraftWarmed():
                return residency.on_warmed(message.draft, now)
            case LoadFinished():
                return residency.on_load_finished(message.draft, now)
            case LoadFailed():
                return residency.on_load_failed(message.draft, message.error, now)
            case LoadCancelled():
                return residency.on_load_cancelled(message.draft, now)
            case BackoffPassed():
                return residency.on_tick(now)
            case _:
                assert_never(message)

    def _carry_out(self, message: Heard, instructions: Iterable[Instruction]) -> None:
        self._record_heard(message)
        self._perform(instructions)
        self._set_timer()

    def _steer(self, message: SteerDraft) -> ResidencySnapshot | UsageError:
        try:
            self._perform(self._residency.on_wish(message.wish, message.draft, _now()))
        except UsageError as error:
            return error
        self._set_timer()
        return self._residency.snapshot(_now())

    def _answer_unloads(self) -> None:
        for envelope, draft in list(self._unloading.items()):
            if not self._residency.is_leaving(draft):
                del self._unloading[envelope]
                envelope.answer(self._residency.snapshot(_now()))

    def _perform(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case StartLoad(draft=draft, placements=placements):
                    self._loader.tell(LoadDraft(draft=draft, placements=placements))
                case AbortLoad(draft=draft):
                    self._loader.tell(CancelLoad(draft=draft))
                case Warm(draft=draft):
                    self._decoder.tell(WarmDraft(draft=draft))
                case Announce():
                    self._decoder.tell(
                        ResidencyAnnounced(
                            epoch=instruction.epoch, resident=instruction.resident, unavailable=instruction.unavailable
                        )
                    )
                case Freed(draft=draft):
                    self._loader.tell(ReleaseDraft(draft=draft))
                case Revoked() | Failed():
                    pass  # nothing to send: a record only
                case _:
                    assert_never(instruction)
            self._record(instruction)

    def _record_heard(self, message: Heard) -> None:
        if self._log.enabled:
            event = heard_event(self.name, message, self._residency)
            if event is not None:
                self._log.write(event)

    def _record(self, instruction: Instruction) -> None:
        if self._log.enabled:
            event = residency_event(self.name, instruction, self._residency)
            if event is not None:
                self._log.write(event)

    def _set_timer(self) -> None:
        """Wake up when the next back-off is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._residency.next_tick()
        if due is not None:
            delay = max(0.0, due - _now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._myself.tell, BackoffPassed())


def _now() -> float:
    return asyncio.get_running_loop().time()
