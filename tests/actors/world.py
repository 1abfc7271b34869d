"""The five actors, really wired, on toy models in virtual time, with everything that goes wrong at random."""

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from memspec_actors.config import ScheduleConfig
from memspec_actors.engine_records import record_runtime
from memspec_actors.models import session as decoding
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyRunner
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import LoadProgress, ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.runtime import Crashed, RuntimeEvent
from memspec_actors.runtime.testing import VirtualWorkers, run_virtual
from memspec_actors.scheduling.artefacts import Artefact, DraftArena, DraftSpec
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.residency import Residency
from memspec_actors.stream import Requests, TextStream
from memspec_actors.telemetry.audit import audit
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import read_events
from memspec_actors.wiring import Parts, Wired, wire
from tests.actors.toys import DRAFTS, Faults, FragileCounters, Memory, Reader, Runners, ShiftingRanker, toy_session

POLICIES = (
    "memspec",
    "prediction-only",
    "mab-async",
    "mab-async:shared",
    "mab-sync",
    "mab-exp3",
    "hedge",
    "memspec+",
    "target-only",
)
PROMPT = (1, 2, 3)
SLOT_BYTES = 640


@dataclass
class World:
    """One wired system on toys, and everything that can be seen of it."""

    seed: int
    log_path: Path
    faults: Faults = field(default_factory=Faults)
    capacity: int = 2
    prediction: str = "overlapped"
    crashes: list[Crashed] = field(default_factory=list)
    busy_until: float = 0.0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._ticks_ns = itertools.accumulate(iter(partial(random.Random(self.seed).randrange, 1, 10**6), 0))
        sizes = {name: 64 * self.rng.randint(1, SLOT_BYTES // 64) for name in DRAFTS}
        budget = self.rng.choice([SLOT_BYTES * self.capacity, max(sizes.values()) + 64])
        self.target = ToyRunner(seed=self.seed)
        loop = asyncio.get_running_loop()
        self.log = EventLog.open(self.log_path, clock=lambda: (loop.time(), loop.time()))
        self.memory = Memory(self.capacity, budget)
        self.specs = [DraftSpec(name, (Artefact(name, nbytes),)) for name, nbytes in sizes.items()]
        self.residency = Residency(self.specs, capacity=self.capacity, budget_bytes=budget)
        self.reader = Reader(self.rng, self.faults, self.memory, self.seed)
        self._log_start(sizes, budget)
        self.wired = self._wire()
        self.requests = Requests(self.wired.decoder, asyncio.get_running_loop())

    def _log_start(self, sizes: dict[str, int], budget: int) -> None:
        self.log.write(
            events.SystemStarted(
                actor="engine", version="", target="toy", drafts=sizes, capacity=self.capacity, budget_bytes=budget,
                policy="memspec", stop_rule="", accept="auto", schedule_interval=1, recent_tokens=64,
                prediction=self.prediction, emulated_bandwidth=None, dtype="float32", threads=1,
            )
        )  # fmt: skip

    def clock_ns(self) -> int:
        """Tell a time that is the same in every run of a seed: policies and rules go by how long things take."""
        return next(self._ticks_ns)

    def log_stop(self) -> None:
        for draft in self.residency.abandon_loads():
            self.log.write(events.DraftLoadCancelled(actor="engine", draft=draft, reserved_bytes=0))
        self.log.write(events.SystemStopped(actor="engine", reason="closed", records=self.log.records + 1))
        self.log.close()

    def _wire(self) -> Wired:
        schedule = ScheduleConfig(interval=self.rng.randint(1, 5), prediction=self.prediction)  # type: ignore[arg-type]
        maker = RankerMaker(
            drafts=DRAFTS,
            predictor=lambda: ShiftingRanker(self.rng, self.faults),
            capacity=self.capacity,
            fits=DraftArena(self.specs, self.memory.budget).could_hold,
        )
        parts = Parts(
            open_session=self._open_session,
            policy_of=lambda name: parse_policy(name, DRAFTS),
            new_ranker=lambda policy, point: maker.make(policy, seed=point.seed),
            reader=self.reader,
            residency=self.residency,
            schedule=schedule,
            capacity=self.capacity,
            log=self.log,
            on_progress=self._on_progress,
            new_workers=lambda name: VirtualWorkers(name, cost_s=self._cost),
            runners=Runners(self.memory),
            counters=FragileCounters(self.rng, self.faults),
        )
        return wire(parts, self._observe)

    def _cost(self, fn: Callable[..., object], *args: object) -> float:
        name = getattr(fn, "__name__", "")
        if name == "read":  # the load begins to write now
            self._take(*args)
        faults = self.faults
        tops = {"read": 0.08, "step": faults.step_s, "prefill": faults.prefill_s, "warm": faults.warm_s}
        cost = self.rng.uniform(0.0, tops.get(name, faults.rank_s))
        if name in ("prefill", "step"):
            self._check_pace(fn, cost)
        return cost

    def _check_pace(self, fn: Callable[..., object], cost: float) -> None:
        """With overlapped prediction no virtual time may pass from one iteration of a request to the next.

        A policy that waits for loads by definition is let off.
        """
        now, session = asyncio.get_running_loop().time(), getattr(fn, "__self__", None)
        assert isinstance(session, DecodeSession)
        waits = self.prediction == "inline" or session.request.policy == "mab-sync"
        if session.generated and not waits:
            assert now == pytest.approx(self.busy_until, abs=1e-9), "invariant 4: decoding stood still"
        self.busy_until = now + cost

    def _take(self, draft: object, placements: object, *_: object) -> None:
        assert isinstance(draft, str) and isinstance(placements, tuple)
        (placement,) = placements
        self.memory.take(draft, placement.offset, placement.offset + placement.nbytes)

    def _on_progress(self, progress: LoadProgress) -> None:
        if self.rng.random() < self.faults.progress_crashes:
            raise RuntimeError("the observer has a bug")

    def _observe(self, event: RuntimeEvent) -> None:
        if isinstance(event, Crashed):
            self.crashes.append(event)
        record_runtime(self.log, event)

    def _open_session(self, request: GenerationRequest) -> DecodeSession:
        if self.faults.session_crashes and self.rng.random() < self.faults.session_crashes:
            raise RuntimeError("no memory for a cache")
        watches_catch_up = parse_policy(request.policy, DRAFTS).watches_catch_up
        return toy_session(self.target, request, watches_catch_up=watches_catch_up)

    def request(
        self, index: int, policy: str = "memspec", max_new_tokens: int = 40, temperature: float = 0.0
    ) -> TextStream:
        stop = self.rng.choice([f"fixed:{self.rng.randint(1, 5)}", "entropy", "confidence", "gain"])
        request = GenerationRequest(
            request_id=f"r{index}",
            prompt_ids=(*PROMPT, index % 17),
            max_new_tokens=max_new_tokens,
            sampling=SamplingParams(temperature=temperature),
            seed=index,
            policy=policy,
            stop_rule=stop,
            accept="auto",
            lossless=True,
            thresholds="fixed" if stop.startswith("fixed") else self._thresholds(),
        )
        return TextStream(self.requests, request)

    def _thresholds(self) -> Literal["sync", "async"]:
        """Let learning rules wait for what they learn, unless its actor may die: then decoding would stand still."""
        if self.prediction == "overlapped" and self.faults.statistics_crash:
            return "async"
        return self.rng.choice(("sync", "async"))

    def reference(self, stream: TextStream) -> tuple[int, ...]:
        """Give the target's own greedy ids, from logits computed afresh at every token."""
        tokens = list(stream.request.prompt_ids)
        for _ in range(stream.request.max_new_tokens):
            tokens.append(int(self.target.logits(tokens).argmax()))
        return tuple(tokens[len(stream.request.prompt_ids) :])


async def read_to_end(stream: TextStream) -> GenerationResult:
    text = "".join([chunk.text async for chunk in stream])
    assert text == stream.result.text, "the chunks joined are not the text"
    return stream.result


def check_log(path: Path, requests: int, budget: int, capacity: int) -> list[Event]:
    """Check invariants 1, 2, 4, 6 and 8 from the records alone."""
    records = [event for event in read_events(path) if isinstance(event, Event)]
    announced: dict[int, tuple[ResidentDraft, ...]] = {0: ()}
    open_loads: set[ResidentDraft] = set()
    finished: list[str | None] = []
    for event in records:
        match event:
            case events.ResidencyAnnouncedEvent(epoch=epoch, resident=resident):
                assert epoch is not None and epoch == max(announced) + 1, "epochs grow by one"
                announced[epoch] = resident
                assert event.resident_bytes + event.reserved_bytes <= budget
                assert len(resident) <= capacity
            case events.Iteration(draft=draft, epoch=epoch):
                assert draft is None or (epoch is not None and draft in announced[epoch]), "invariant 1"
                assert event.accepted <= event.drafted and event.accepted <= event.emitted <= event.accepted + 1
            case events.DraftLoadStarted(draft=draft):
                assert draft not in open_loads
                open_loads.add(draft)
            case events.DraftLoadFinished() | events.DraftLoadFailed() | events.DraftLoadCancelled():
                assert event.draft in open_loads, "invariant 6: a load ended twice, or never began"
                open_loads.remove(event.draft)
            case events.RequestFinished(request_id=request_id):
                finished.append(request_id)
            case _:
                pass
    assert sorted(map(str, finished)) == sorted(f"r{i}" for i in range(requests)), "invariant 8"
    return records


def run_world(seed: int, path: Path, faults: Faults, scenario: Callable[[World], object], **options: object) -> World:
    """Run a scenario on a started world in virtual time; nothing may be left running afterwards."""
    worlds: list[World] = []

    async def main() -> None:
        world = World(seed, path, faults, **options)  # type: ignore[arg-type]
        worlds.append(world)
        before = asyncio.all_tasks()
        patch.setattr(decoding, "perf_counter_ns", world.clock_ns)
        async with world.wired.system:
            await scenario(world)  # type: ignore[misc]
            assert world.wired.system.failure is None, world.wired.system.failure
        world.log_stop()
        assert asyncio.all_tasks() == before, "tasks are left running"
        assert audit(path).violations == (), "the log does not bear out what was checked from outside"

    with pytest.MonkeyPatch.context() as patch:
        run_virtual(main, seed=seed)
    return worlds[0]
