"""A residency state machine between the model Decoder and the model Loader, checked at every step.

The world keeps its own books in plain sets and sums: what every instruction did, what the Decoder may touch, what lies
where. Edges between the three are FIFO and deliver at random times; loads overlap, fail, are cancelled or finish late;
requests come and go, drafts are unloaded, the Decoder restarts; stale messages come.
"""

import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Sequence

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
from tests.scheduling.model_decoder import ModelDecoder
from tests.scheduling.model_loader import ModelLoader
from tests.scheduling.plant import ALIGNMENT, Plant, mixed_plant, uniform_plant


class World:
    """Residency, Decoder and Loader, the edges between them, and the books."""

    def __init__(self, plant: Plant, rng: random.Random, residency_type: type[Residency] = Residency) -> None:
        self.plant, self.rng, self.now = plant, rng, 0.0
        specs = [DraftSpec(name, tuple(Artefact(a, n) for a, n in plant.parts[name].items())) for name in plant.names]
        self.residency = residency_type(specs, capacity=plant.capacity, budget_bytes=plant.budget)
        self.loader = ModelLoader()
        self.decoder = ModelDecoder(self.loader.runners)
        self.latest_wins = rng.random() < 0.7
        # the books
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
        self.decoder.order, self.depth = list(order), depth
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
        kind, draft = self.loader.outbox.popleft()
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
        kind, draft, epoch = self.decoder.outbox.popleft()
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
                self.loader.inbox.append(instruction)
            case AbortLoad(draft=draft):
                assert self.status[draft] == "loading"
                self.loader.inbox.append(instruction)
            case Warm(draft=draft):
                assert self.status[draft] == "loaded"
                self.status[draft] = "warming"
                self.decoder.inbox.append(instruction)
            case Announce():
                self.note_announcement(instruction)
            case Revoked(draft=draft):
                assert draft in self.announced.resident or self.status[draft] == "warmed"
                assert draft != self.told_active or draft.name in self.unloaded, "the active draft was revoked"
            case Freed():
                self.note_freed(instruction)
                self.loader.inbox.append(instruction)
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
            self.decoder.inbox = deque(message for message in self.decoder.inbox if isinstance(message, Warm))
        self.decoder.inbox.append(announce)

    def note_freed(self, freed: Freed) -> None:
        draft = freed.draft
        assert self.status[draft] in ("loaded", "warmed"), "freed while it is written or warmed"
        assert not self.decoder.may_touch(draft), "freed while the Decoder may use it"
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
            (6, bool(self.loader.outbox), self.hear_loader),
            (8, bool(self.decoder.outbox), self.hear_decoder),
            (6, bool(self.decoder.inbox), lambda: self.decoder.takes(rng.choice([None, rng.randrange(5)]))),
            (2, True, lambda: self.decoder.picks(rng.choice([None, rng.randrange(5)]))),
            (3, True, self.decoder.iterates),
            (4, bool(self.decoder.warming), lambda: self.decoder.warmed(rng.randrange(5))),
            (0.3, True, self.decoder.restarts),
            (0.5, True, self.change_request),
            (0.5, True, lambda: self.unload(rng.choice(self.plant.names))),
            (2, not self.decoder.has_sequence, self.decoder.begins),
            (6, bool(self.loader.inbox), self.loader.takes),
            (5, bool(self.loader.running), lambda: self.loader.ends(rng.randrange(5), random_outcome(rng))),
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
        while ("ack", None, 0) in self.decoder.outbox:
            self.hear_decoder()
        self.change_request()
        self.rank(order)
        for _ in range(200):
            self.decoder.picks()
            edges = (self.loader.outbox, self.decoder.outbox, self.decoder.inbox, self.loader.inbox)
            if not any(edges) and not self.loader.running and not self.decoder.warming:
                due = self.residency.next_tick()
                if due is None:
                    return
                self.pass_time(due - self.now)
            while self.loader.inbox:
                self.loader.takes()
            while self.loader.running:
                self.loader.ends(0, "finished")
            while self.loader.outbox:
                self.hear_loader()
            while self.decoder.inbox:
                self.decoder.takes()
            while self.decoder.warming:
                self.decoder.warmed(0)
            while self.decoder.outbox:
                self.hear_decoder()
        raise AssertionError("it never comes to rest")

    def check_at_rest(self) -> None:
        """The working set is resident, or room for its best missing draft cannot be made by any eviction allowed."""
        assert {self.status[d] for d in self.held} <= {"warmed"}
        wanted = self.plant.working_set(self.decoder.order, self.depth)
        resident = {d.name for d in self.announced.resident}
        missing = [name for name in wanted if name not in resident]
        if not missing:
            return
        staying = {d: p for d, p in self.held.items() if d.name in wanted or d == self.decoder.active}
        if self.plant.uniform:
            assert self.plant.capacity == 1, f"{missing} never became resident"
        assert len(staying) >= self.plant.capacity or not self.plant.has_room(missing[0], staying.values())


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
