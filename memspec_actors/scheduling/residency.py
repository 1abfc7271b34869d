"""Which drafts are in memory and which of them may be used: a state machine, events in, instructions out.

Every draft in memory goes the way that `slot` draws. Its bytes are given to another draft only when nobody touches them
any more. Room is made for the newest ranking only: nothing is remembered of what older ones wanted. A ranking is void
once its request is over: what is in memory or on its way stays, but nothing more is loaded on its account.
"""

from collections.abc import Sequence

import msgspec

from memspec_actors.protocols.messages import DraftWish, ResidentDraft
from memspec_actors.protocols.results import ResidencySnapshot
from memspec_actors.scheduling.artefacts import DraftSpec
from memspec_actors.scheduling.backoff import Backoff, Quarantine
from memspec_actors.scheduling.demand import Demand
from memspec_actors.scheduling.epochs import Epochs
from memspec_actors.scheduling.instructions import AbortLoad, Failed, Freed, Instruction, Revoked, Warm
from memspec_actors.scheduling.residency_counts import ResidencyCounts
from memspec_actors.scheduling.slot import IN_TRANSIT, LEAVING, Slot, State
from memspec_actors.scheduling.slots import Slots
from memspec_actors.scheduling.working_set import update_cache

__all__ = ["Residency"]


class Residency:
    """Keep the best-ranked drafts in at most ``capacity`` places and ``budget_bytes`` bytes.

    Times are seconds of one monotonic clock. Every handler first looks whether its message is about the present load of
    a draft (others are stale and ignored), raises before it changes anything, and returns what is to be done, in order.
    A draft larger than the whole budget is unavailable for ever. Raises ConfigError for impossible specs or a budget
    below 1 byte, ValueError for a capacity below 1.
    """

    def __init__(
        self, specs: Sequence[DraftSpec], *, capacity: int, budget_bytes: int, backoff: Backoff | None = None
    ) -> None:
        self._slots = Slots(specs, capacity, budget_bytes)
        self._quarantine = Quarantine(backoff or Backoff())
        self._demand = Demand(self._slots.draft_names, capacity, self._slots.arena.could_hold, self._quarantine)
        self._epochs = Epochs()
        self._counts = ResidencyCounts()
        self._refuse_oversized()

    # --- events -------------------------------------------------------------------------------------------------------

    def on_request(self, request_id: str | None, now: float) -> list[Instruction]:
        """Note whose text is decoded from now on (None: nobody's): what the rankings before wanted is void."""
        if request_id == self._demand.request_id:
            return []
        self._demand.serve(request_id)
        return self._settle(now)

    def on_ranking(
        self, order: Sequence[str], scores: Sequence[float], now: float, depth: int | None = None
    ) -> list[Instruction]:
        """Take over a ranking, best first, whose first ``depth`` are wanted in memory (None: as many as fit).

        Raises ValueError for unknown or repeated drafts or a missing score.
        """
        self._demand.rank(order, scores, depth)
        return self._settle(now)

    def on_wish(self, wish: DraftWish, name: str, now: float) -> list[Instruction]:
        """Do what somebody asks for a draft: ``load`` it (until the next ranking), ``pin``, ``unpin`` or ``unload`` it.

        A quarantined draft is tried again. The active one may be unloaded too: decoding moves to another before it is
        freed, and the request at hand does without it. Raises InvalidRequest for an unknown draft, one that never fits,
        or pins that have no room together.
        """
        self._demand.ask(wish, name)
        leaves = wish == "unload" and self._slots.get(name) is not None and not self.is_leaving(name)
        return (self._let_go(name, "it was asked for") if leaves else []) + self._settle(now)

    def on_load_finished(self, draft: ResidentDraft, now: float) -> list[Instruction]:
        """Warm a loaded draft; free one whose load was given up, unless it is wanted again."""
        slot = self._slots.find(draft, *IN_TRANSIT)
        if slot is None:
            return []
        self._counts.loads += 1
        self._quarantine.forgive(draft.name)
        if slot.state is State.CANCELLING and draft.name not in self._demand.wanted():
            return [self._free(slot), *self._settle(now)]
        slot.loaded()
        return [Warm(draft), *self._settle(now)]

    def on_load_failed(self, draft: ResidentDraft, error: str, now: float) -> list[Instruction]:
        """Take the bytes back and quarantine the draft."""
        slot = self._slots.find(draft, *IN_TRANSIT)
        if slot is None:
            return []
        self._counts.failures += 1
        self._slots.drop(slot)
        retry_in_s = self._quarantine.add(draft.name, error, now)
        return [Failed(draft, error, retry_in_s), *self._settle(now)]

    def on_load_cancelled(self, draft: ResidentDraft, now: float) -> list[Instruction]:
        """Take the bytes back; a draft that is wanted again is loaded anew."""
        slot = self._slots.find(draft, *IN_TRANSIT)
        if slot is None:
            return []
        self._counts.cancellations += 1
        self._slots.drop(slot)
        return self._settle(now)

    def on_warmed(self, draft: ResidentDraft, now: float) -> list[Instruction]:
        """Announce a warmed draft, or free it if its place is needed."""
        slot = self._slots.find(draft, State.WARMING, State.DISCARDED)
        if slot is None:
            return []
        if slot.state is State.DISCARDED:
            return [self._free(slot), *self._settle(now)]
        slot.warmed()
        return self._settle(now)

    def on_activated(self, draft: ResidentDraft | None) -> list[Instruction]:
        """Note which draft decodes: the one before it may have to make room."""
        if not self._epochs.activate(draft, self._slots):
            return []
        self._note_use(draft)
        return self._free_acknowledged() + self._settle(None)

    def on_ack(self, epoch: int, active: ResidentDraft | None, now: float) -> list[Instruction]:
        """Free what the acknowledged epoch leaves out.

        Epoch 0 comes from a Decoder that started anew: it holds nothing and has read nothing, so whatever it should
        know is said again, under a new epoch.
        """
        if epoch == 0:
            return self._reintroduce(now)
        if not self._epochs.acknowledge(epoch, active, self._slots):
            return []
        self._note_use(active)
        return self._free_acknowledged() + self._settle(now)

    def on_tick(self, now: float) -> list[Instruction]:
        """Let quarantined drafts whose back-off has passed be loaded again."""
        return self._settle(now)

    def abandon_loads(self) -> tuple[ResidentDraft, ...]:
        """Take back the bytes of all loads in flight, whose end nobody will tell any more; return what they were of."""
        slots = self._slots.in_state(*IN_TRANSIT)
        for slot in slots:
            self._counts.cancellations += 1
            self._slots.drop(slot)
        return tuple(slot.draft for slot in slots)

    # --- questions ----------------------------------------------------------------------------------------------------

    def next_tick(self) -> float | None:
        """Return when ``on_tick`` has something to do, or None."""
        return self._quarantine.next_expiry()

    def serves(self, request_id: str) -> bool:
        """Return whether this is the request that is being decoded."""
        return request_id == self._demand.request_id

    def is_leaving(self, name: str) -> bool:
        """Return whether a draft takes up memory that it is to give back."""
        slot = self._slots.get(name)
        return slot is not None and slot.state in LEAVING

    @property
    def counts(self) -> ResidencyCounts:
        """A copy of the counts so far."""
        return msgspec.structs.replace(self._counts)

    @property
    def epoch(self) -> int:
        """The newest that was announced, 0 before the first."""
        return self._epochs.newest

    @property
    def resident_bytes(self) -> int:
        """Bytes of drafts whose load has finished, until they are freed."""
        return self._slots.resident_bytes

    @property
    def reserved_bytes(self) -> int:
        """Bytes that loads in flight have reserved."""
        return self._slots.reserved_bytes

    def snapshot(self, now: float) -> ResidencySnapshot:
        """Show the cache; ``loading`` are all drafts that hold memory and were not announced yet."""
        return ResidencySnapshot(
            epoch=self.epoch,
            resident=self._names(State.RESIDENT),
            loading=self._names(State.LOADING, State.CANCELLING, State.WARMING, State.DISCARDED),
            revoked=self._names(State.REVOKED),
            unavailable=tuple(name for name in self._slots.draft_names if self._quarantine.holds(name, now)),
            active=self._epochs.active.name if self._epochs.active else None,
            capacity=self._slots.capacity,
            budget_bytes=self._slots.arena.budget_bytes,
            resident_bytes=self.resident_bytes,
            reserved_bytes=self.reserved_bytes,
            loads=self._counts.loads,
            evictions=self._counts.evictions,
            pinned=self._demand.pinned,
        )

    # --- what follows from the present state --------------------------------------------------------------------------

    def _settle(self, now: float | None) -> list[Instruction]:
        """Bring the cache closer to the newest ranking, as far as nothing has to be waited for."""
        if now is not None:
            self._quarantine.expire(now)
        wanted = self._demand.wanted()
        self._keep(wanted)
        update = update_cache(
            self._demand.ranking,
            wanted,
            self._slots.held(wanted),
            protected=self._epochs.protected(self._slots),
            capacity=self._slots.capacity,
            fits=self._slots.arena.would_hold,
        )
        evictions = [
            instruction
            for eviction in update.evict
            for instruction in self._let_go(eviction.victim, f"its room is needed for {eviction.room_for}")
        ]
        announcements = self._epochs.announce(self._slots, self._demand.unavailable())
        return [*evictions, *announcements, *self._start(update.prefetch)]

    def _keep(self, wanted: Sequence[str]) -> None:
        # What is wanted again and not gone yet stays: cheaper than loading it a second time. A cancelled load cannot
        # be called back, but keeps its place: if it finishes all the same it is adopted.
        for slot in self._slots.in_state(State.REVOKED, State.DISCARDED):
            if slot.draft.name in wanted:
                slot.stay()

    def _let_go(self, name: str, reason: str) -> list[Instruction]:
        slot = self._slots.get(name)
        assert slot is not None, "only drafts in memory are evicted"
        slot.leave()
        match slot.state:
            case State.CANCELLING:
                return [AbortLoad(slot.draft)]
            case State.REVOKED:
                return [Revoked(slot.draft, reason, self._demand.score_of(name))]
            case _:
                return []

    def _start(self, prefetch: Sequence[str]) -> list[Instruction]:
        # In order of rank, and none before a better-ranked one: it might take the gap that the better one waits for.
        started: list[Instruction] = []
        for name in prefetch:
            start = self._slots.start_load(name)
            if start is None:
                break
            started.append(start)
        return started

    def _free_acknowledged(self) -> list[Instruction]:
        return [self._free(slot) for slot in self._slots.in_state(State.REVOKED) if self._epochs.has_left(slot)]

    def _free(self, slot: Slot) -> Freed:
        self._counts.evictions += 1
        self._counts.wasted += not slot.used
        return Freed(slot.draft, self._slots.drop(slot), self._epochs.acknowledged)

    def _reintroduce(self, now: float) -> list[Instruction]:
        self._demand.serve(None)
        self._epochs.begin_anew()
        return self._settle(now)

    def _note_use(self, draft: ResidentDraft | None) -> None:
        slot = self._slots.get(draft.name) if draft else None
        if slot is not None and not slot.used:
            slot.used = True
            self._counts.useful += 1

    def _names(self, *states: State) -> tuple[str, ...]:
        return tuple(slot.draft.name for slot in self._slots.in_state(*states))

    def _refuse_oversized(self) -> None:
        arena = self._slots.arena
        for name in self._slots.draft_names:
            if not arena.could_hold([name]):
                self._quarantine.add_for_ever(
                    name,
                    f"draft {name!r} needs {arena.nbytes([name])} bytes and the whole budget is {arena.budget_bytes};"
                    f" raise memory.budget or leave the draft out",
                )
