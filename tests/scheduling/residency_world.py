"""A residency state machine among a model Decoder and a model Loader, checked at every step.

The world keeps its own books in plain sets and sums: what every instruction did, what the Decoder may touch, what lies
where. Edges between the three are FIFO and deliver at random times; loads overlap, fail, are cancelled or finish late;
requests come and go, drafts are unloaded, the Decoder restarts; stale messages come.
"""

import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from memspec_actors.protocols.messages import Placement, ResidentDraft
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
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
from tests.scheduling.plant import ALIGNMENT, Plant, mixed_plant, uniform_plant


class World:
    """Residency, Decoder and Loader, the edges between them, and the books."""

    def __init__(self, plant: Plant, rng: random.Random, residency_type: type[Residency] = Residency) -> None:
        self.plant, self.rng, self.now = plant, rng, 0.0
        specs = [DraftSpec(name, tuple(Artefact(a, n) for a, n in plant.parts[name].items())) for name in plant.names]
        self.residency = residency_type(specs, capacity=plant.capacity, budget_bytes=plant.budget)
        self.to_decoder: deque[Announce | Warm] = deque()
        self.to_loader: deque[StartLoad | AbortLoad | Freed] = deque()
        self.from_decoder: deque[tuple[str, ResidentDraft | None, int]] = deque()
        self.from_loader: deque[tuple[str, ResidentDraft]] = deque()
        self.latest_wins = rng.random() < 0.7
        # the Decoder
        self.read: Announce | None = None
        self.active: ResidentDraft | None = None
        self.warming: list[ResidentDraft] = []
        self.has_sequence = True
        # the Loader: what it is reading, what it was told to give up, and what it has bound
        self.running: dict[ResidentDraft, tuple[Placement, ...]] = {}
        self.aborted: set[ResidentDraft] = set()
        self.runners: dict[ResidentDraft, tuple[Placement, ...]] = {}
        # the books
        self.order: list[str] = []
        self.depth: int | None = None
        self.unloaded: set[str] = set()
        self.served: str | None = None
        self.num_requests = 0
        self.held: dict[ResidentDraft, tuple[Placement, ...]] = {}
        self.status: dict[ResidentDraft, str] = {}  # loading, loaded, warming, warmed
        self.generation = dict.fromkeys(plant.names, 0)
        self.announced: Announce = Announce(0, (), (), "")
        self.told_active: ResidentDraft | None = None
        self.num_failures = dict.fromkeys(plant.names, 0)
        self.until = {name: -math.inf if plant.packs([name]) else math.inf for name in plant.names}
        self.num_loads = self.num_evictions = self.num_freed_unused = 0
        self.used: set[ResidentDraft] = set()

    # --- what reaches the state machine -------------------------------------------------------------------------------

    def rank(self, order: Sequence[str], depth: int | None = None) -> None:
        self.order, self.depth = list(order), depth
        scores = [1.0 / (i + 1) for i in range(len(order))]
        self.handle(lambda: self.residency.on_ranking(order, scores, self.now, depth))

    def change_request(self) -> None:
        """End a request, or begin one: what was ranked for it and what was unloaded during it is over."""
        self.num_requests += 1
        served = None if self.served else f"request {self.num_requests}"
        self.forget_request(served)
        self.handle(lambda: self.residency.on_request(served, self.now))

    def forget_request(self, served: str | None) -> None:
        self.served, self.depth = served, 0
        self.unloaded.clear()

    def unload(self, name: str) -> None:
        self.unloaded.add(name)
        self.handle(lambda: self.residency.on_wish("unload", name, self.now))
        assert self.residency.is_leaving(name) == (name in {draft.name for draft in self.held})

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.handle(lambda: self.residency.on_tick(self.now))

    def hear_loader(self) -> None:
        kind, draft = self.from_loader.popleft()
        assert self.status[draft] == "loading", "a load ended twice"
        if kind == "finished":
            self.status[draft] = "loaded"
            self.num_loads += 1
            self.num_failures[draft.name] = 0
            self.handle(lambda: self.residency.on_load_finished(draft, self.now))
            return
        del self.held[draft], self.status[draft]
        if kind == "cancelled":
            self.handle(lambda: self.residency.on_load_cancelled(draft, self.now))
            return
        delay = min(60.0, 2.0 ** self.num_failures[draft.name])
        self.num_failures[draft.name] += 1
        self.until[draft.name] = self.now + delay
        told = self.handle(lambda: self.residency.on_load_failed(draft, "gone", self.now))
        assert Failed(draft, "gone", delay) in told

    def hear_decoder(self) -> None:
        kind, draft, epoch = self.from_decoder.popleft()
        if kind == "warmed":
            assert draft is not None
            assert self.status[draft] == "warming", "a warm was answered twice"
            self.status[draft] = "warmed"
            self.handle(lambda: self.residency.on_warmed(draft, self.now))
            return
        if kind == "ack" and epoch == 0:
            self.forget_request(None)
        self.told_active = draft
        if draft is not None:
            self.used.add(draft)
        if kind == "ack":
            self.handle(lambda: self.residency.on_ack(epoch, draft, self.now))
        else:
            self.handle(lambda: self.residency.on_activated(draft), timed=False)

    def send_stale(self, name: str, age: int, kind: int) -> None:
        """Deliver a message about a load that is over, was never begun, or is in no state for it."""
        draft = ResidentDraft(name, self.generation[name] - age)
        if draft in self.held:
            return
        residency, before = self.residency, self.residency.snapshot(self.now)
        handlers: list[Callable[[], list[Instruction]]] = [
            lambda: residency.on_load_finished(draft, self.now),
            lambda: residency.on_load_failed(draft, "gone", self.now),
            lambda: residency.on_load_cancelled(draft, self.now),
            lambda: residency.on_warmed(draft, self.now),
            lambda: residency.on_activated(draft),
            lambda: residency.on_ack(self.announced.epoch + 1, None, self.now),
        ]
        assert handlers[kind]() == [], "a stale message must be ignored"
        assert residency.snapshot(self.now) == before

    # --- the Decoder --------------------------------------------------------------------------------------------------

    def decoder_takes(self, choice: int | None = None) -> None:
        message = self.to_decoder.popleft()
        if isinstance(message, Announce):
            self.read = message
            self.decoder_picks(choice)
            self.from_decoder.append(("ack", self.active, message.epoch))
        elif self.has_sequence:
            self.warming.append(message.draft)
        else:
            self.from_decoder.append(("warmed", message.draft, 0))

    def decoder_picks(self, choice: int | None = None) -> None:
        """Activate a usable draft: any one, or by default the best-ranked."""
        usable: list[ResidentDraft | None] = list(self.read.resident) if self.read else []
        ranked = [d for name in self.order for d in usable if d and d.name == name]
        picked = [*usable, None][choice % (len(usable) + 1)] if choice is not None else next(iter(ranked), None)
        if picked != self.active:
            self.active = picked
            self.from_decoder.append(("activated", picked, 0))

    def decoder_iterates(self) -> None:
        for draft in [self.active, *self.warming]:
            assert draft is None or draft in self.runners, "the Decoder computes with freed weights"
        assert self.active is None or (self.read is not None and self.active in self.read.resident)

    def decoder_warmed(self, choice: int) -> None:
        draft = self.warming.pop(choice % len(self.warming))
        assert draft in self.runners, "the Decoder warms freed weights"
        self.from_decoder.append(("warmed", draft, 0))

    def decoder_restarts(self) -> None:
        self.read, self.active, self.has_sequence = None, None, False
        while self.warming:
            self.decoder_warmed(0)
        self.from_decoder.append(("ack", None, 0))

    def decoder_begins(self) -> None:
        self.has_sequence = True

    def may_touch(self, draft: ResidentDraft) -> bool:
        """Whether the Decoder uses a draft, or could by what it has read or will read."""
        coming = [draft in m.resident if isinstance(m, Announce) else draft == m.draft for m in self.to_decoder]
        usable = self.read is not None and draft in self.read.resident
        return draft == self.active or draft in self.warming or usable or any(coming)

    # --- the Loader ---------------------------------------------------------------------------------------------------

    def loader_takes(self) -> None:
        message = self.to_loader.popleft()
        if isinstance(message, AbortLoad):
            if message.draft in self.running:
                self.aborted.add(message.draft)
        elif isinstance(message, Freed):
            del self.runners[message.draft]
        else:
            for place in message.placements:
                self.check_write(place)
            self.running[message.draft] = message.placements

    def check_write(self, place: Placement) -> None:
        bound = [p for placements in self.runners.values() for p in placements]
        if place.present:
            assert any(p.artefact == place.artefact and p.offset == place.offset for p in bound), "nothing is there"
            return
        written = [p for placements in self.running.values() for p in placements if not p.present]
        for other in [*bound, *written]:
            apart = place.offset + place.nbytes <= other.offset or other.offset + other.nbytes <= place.offset
            assert apart, f"{place} is read over {other}"

    def loader_ends(self, choice: int, outcome: str) -> None:
        draft = sorted(self.running, key=lambda d: d.name)[choice % len(self.running)]
        if outcome == "cancelled" and draft not in self.aborted:
            outcome = "finished"
        placements = self.running.pop(draft)
        self.aborted.discard(draft)
        if outcome == "finished":
            self.runners[draft] = placements
        self.from_loader.append((outcome, draft))

    # --- the books ----------------------------------------------------------------------------------------------------

    def handle(self, call: Callable[[], list[Instruction]], timed: bool = True) -> list[Instruction]:
        instructions = call()
        for instruction in instructions:
            self.note(instruction)
        self.check(timed)
        return instructions

    def note(self, instruction: Instruction) -> None:
        match instruction:
            case StartLoad():
                self.note_start(instruction)
                self.to_loader.append(instruction)
            case AbortLoad(draft=draft):
                assert self.status[draft] == "loading"
                self.to_loader.append(instruction)
            case Warm(draft=draft):
                assert self.status[draft] == "loaded"
                self.status[draft] = "warming"
                self.to_decoder.append(instruction)
            case Announce():
                self.note_announcement(instruction)
            case Revoked(draft=draft):
                assert draft in self.announced.resident or self.status[draft] == "warmed"
                assert draft != self.told_active or draft.name in self.unloaded, "the active draft was revoked"
            case Freed():
                self.note_freed(instruction)
                self.to_loader.append(instruction)
            case Failed(draft=draft):
                assert draft not in self.held

    def note_start(self, start: StartLoad) -> None:
        name = start.draft.name
        assert name not in {draft.name for draft in self.held}, "two loads of one draft"
        assert start.draft.generation > self.generation[name]
        assert self.until[name] <= self.now, "an unavailable draft is loaded"
        assert name not in self.unloaded, "an unloaded draft comes back"
        assert self.depth != 0, "a draft is loaded for a request that is over"
        self.generation[name] = start.draft.generation
        assert {p.artefact: p.nbytes for p in start.placements} == self.plant.parts[name]
        for place in start.placements:
            holders = [d for d, placements in self.held.items() if place.artefact in {p.artefact for p in placements}]
            assert place.present == bool(holders)
            assert all(self.status[d] != "loading" for d in holders), "shared with a load that may yet fail"
        before = self.held_bytes()
        self.held[start.draft] = start.placements
        self.status[start.draft] = "loading"
        assert start.nbytes == self.held_bytes() - before

    def note_announcement(self, announce: Announce) -> None:
        assert announce.epoch == self.announced.epoch + 1
        assert announce.reason
        for draft in announce.resident:
            assert self.status[draft] == "warmed", "a draft is announced before it is ready"
        self.announced = announce
        if self.latest_wins:
            self.to_decoder = deque(message for message in self.to_decoder if isinstance(message, Warm))
        self.to_decoder.append(announce)

    def note_freed(self, freed: Freed) -> None:
        draft = freed.draft
        assert self.status[draft] in ("loaded", "warmed"), "freed while it is written or warmed"
        assert not self.may_touch(draft), "freed while the Decoder may use it"
        assert draft != self.told_active
        before = self.held_bytes()
        del self.held[draft], self.status[draft]
        assert freed.nbytes == before - self.held_bytes()
        self.num_evictions += 1
        self.num_freed_unused += draft not in self.used

    def held_bytes(self, *, loaded: bool = False) -> int:
        return self.plant.bytes(d.name for d in self.held if not loaded or self.status[d] != "loading")

    def check(self, timed: bool) -> None:
        plant, snapshot = self.plant, self.residency.snapshot(self.now)
        assert len(self.held) <= plant.capacity, "more drafts than K"
        where: dict[str, tuple[int, int]] = {}
        for place in (p for placements in self.held.values() for p in placements):
            assert where.setdefault(place.artefact, (place.offset, place.nbytes)) == (place.offset, place.nbytes)
        ranges = sorted(where.values())
        assert all(offset % ALIGNMENT == 0 and 0 <= offset <= plant.budget - nbytes for offset, nbytes in ranges)
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges)), "two artefacts overlap"
        assert self.held_bytes() <= plant.budget
        assert snapshot.resident_bytes == self.held_bytes(loaded=True), "the wrong bytes count as loaded"
        assert snapshot.resident_bytes + snapshot.reserved_bytes == self.held_bytes(), "bytes are lost or made up"
        assert sorted(snapshot.resident + snapshot.loading + snapshot.revoked) == sorted(d.name for d in self.held)
        assert snapshot.resident == tuple(d.name for d in self.announced.resident), "a change was not announced"
        assert snapshot.epoch == self.announced.epoch
        assert snapshot.active == (self.told_active.name if self.told_active else None)
        assert (snapshot.loads, snapshot.evictions) == (self.num_loads, self.num_evictions)
        counts = self.residency.counts
        assert (counts.useful, counts.wasted) == (len(self.used), self.num_freed_unused)
        if timed:
            failed = tuple(name for name in plant.names if self.until[name] > self.now)
            assert snapshot.unavailable == failed
            unavailable = tuple(name for name in plant.names if name in (*failed, *self.unloaded))
            assert self.announced.unavailable == unavailable, "a failure was not announced"

    # --- one random step, and the end of all unrest -------------------------------------------------------------------

    def step(self) -> None:
        rng = self.rng
        actions: list[tuple[float, bool, Callable[[], None]]] = [
            (2, True, self.rank_at_random),
            (6, bool(self.from_loader), self.hear_loader),
            (8, bool(self.from_decoder), self.hear_decoder),
            (6, bool(self.to_decoder), lambda: self.decoder_takes(rng.choice([None, rng.randrange(5)]))),
            (2, True, lambda: self.decoder_picks(rng.choice([None, rng.randrange(5)]))),
            (3, True, self.decoder_iterates),
            (4, bool(self.warming), lambda: self.decoder_warmed(rng.randrange(5))),
            (0.3, True, self.decoder_restarts),
            (0.5, True, self.change_request),
            (0.5, True, lambda: self.unload(rng.choice(self.plant.names))),
            (2, not self.has_sequence, self.decoder_begins),
            (6, bool(self.to_loader), self.loader_takes),
            (5, bool(self.running), lambda: self.loader_ends(rng.randrange(5), random_outcome(rng))),
            (1, True, lambda: self.pass_time(rng.choice([0.01, 0.5, 3.0]))),
            (1, True, lambda: self.send_stale(rng.choice(self.plant.names), rng.randint(-1, 2), rng.randrange(6))),
        ]
        possible = [(weight, action) for weight, enabled, action in actions if enabled]
        rng.choices([action for _, action in possible], [weight for weight, _ in possible])[0]()

    def rank_at_random(self) -> None:
        names, depth = self.plant.names, self.rng.choice([None, None, 1, 2])
        self.rank(self.rng.sample(names, self.rng.randint(0, len(names))), depth)

    def calm_down(self, order: Sequence[str]) -> None:
        """Rank for a new request, then let everything succeed and arrive until nothing happens any more."""
        while ("ack", None, 0) in self.from_decoder:
            self.hear_decoder()
        self.change_request()
        self.rank(order)
        for _ in range(200):
            self.decoder_picks()
            edges = (self.from_loader, self.from_decoder, self.to_decoder, self.to_loader)
            if not any(edges) and not self.running and not self.warming:
                due = self.residency.next_tick()
                if due is None:
                    return
                self.pass_time(due - self.now)
            while self.to_loader:
                self.loader_takes()
            while self.running:
                self.loader_ends(0, "finished")
            while self.from_loader:
                self.hear_loader()
            while self.to_decoder:
                self.decoder_takes()
            while self.warming:
                self.decoder_warmed(0)
            while self.from_decoder:
                self.hear_decoder()
        raise AssertionError("it never comes to rest")

    def check_at_rest(self) -> None:
        """The working set is resident, or room for its best missing draft cannot be made by any eviction allowed."""
        assert {self.status[d] for d in self.held} <= {"warmed"}
        wanted = self.plant.working_set(self.order, self.depth)
        resident = {d.name for d in self.announced.resident}
        missing = [name for name in wanted if name not in resident]
        if not missing:
            return
        staying = {d: p for d, p in self.held.items() if d.name in wanted or d == self.active}
        if self.plant.uniform:
            assert self.plant.capacity == 1, f"{missing} never became resident"
        assert len(staying) >= self.plant.capacity or not self.finds_room(missing[0], staying.values())

    def finds_room(self, name: str, staying: Iterable[tuple[Placement, ...]]) -> bool:
        """Try every aligned place for every artefact."""
        taken = {p.artefact: (p.offset, p.nbytes) for placements in staying for p in placements}
        absent = [n for a, n in self.plant.parts[name].items() if a not in taken]
        offsets = range(0, self.plant.budget, ALIGNMENT)
        for places in itertools.product(offsets, repeat=len(absent)):
            ranges = sorted([*taken.values(), *zip(places, absent, strict=True)])
            inside = all(offset + n <= self.plant.budget for offset, n in ranges)
            if inside and all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges)):
                return True
        return False


def random_outcome(rng: random.Random) -> str:
    return rng.choice(["finished", "finished", "finished", "failed", "cancelled", "cancelled"])


def live(seed: int, residency_type: type[Residency] = Residency, num_steps: int = 50) -> World:
    """Run one world through its life: unrest, then rest, with every check on the way."""
    rng = random.Random(seed)
    plant = uniform_plant(rng) if seed % 2 else mixed_plant(rng)
    world = World(plant, rng, residency_type)
    for _ in range(num_steps):
        world.step()
    world.calm_down(rng.sample(plant.names, len(plant.names)))
    world.check_at_rest()
    return world
