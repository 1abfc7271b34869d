"""The five actors, really wired, on toy models in virtual time: thousands of interleavings, crashes and cancellations.

What would be wrong if these fail: a draft decoded with after its memory was given away, a request that never ends, a
text that is not the target's own, or generation that stops because a helper actor died.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from memspec_actors.config import ScheduleConfig
from memspec_actors.engine_records import record_runtime
from memspec_actors.errors import LoadError, MailboxFull, MemSpecError, Overloaded, UsageError
from memspec_actors.models import session as decoding
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.drafting.reader import ReadDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyRunner, ToyText
from memspec_actors.models.weights.loading import LoadReport
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.messages import Generate, LoadProgress, Placement, ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.runtime import Crashed, RuntimeEvent
from memspec_actors.runtime.testing import VirtualWorkers, run_virtual
from memspec_actors.scheduling.artefacts import Artefact, DraftArena, DraftSpec
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranking, RankingContext
from memspec_actors.scheduling.residency import Residency
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.speculation.stop import stop_rule
from memspec_actors.stream import MAX_OPEN_REQUESTS, Requests, TextStream
from memspec_actors.telemetry.audit import audit
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import read_events
from memspec_actors.wiring import Parts, Wired, wire

DRAFTS = ("a", "b", "c", "d", "e")
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


class Memory:
    """Check every use of the arena by itself: which bytes belong to which load, from its start to its release."""

    def __init__(self, capacity: int, budget: int) -> None:
        self.capacity, self.budget = capacity, budget
        self.ranges: dict[str, tuple[int, int]] = {}

    def take(self, draft: str, start: int, end: int) -> None:
        assert draft not in self.ranges, "behaviour 15: one load per draft at a time"
        for other, (low, high) in self.ranges.items():
            assert end <= low or start >= high, f"{draft} was loaded over {other}, which is still in use"
        self.ranges[draft] = (start, end)
        assert len(self.ranges) <= self.capacity, f"{len(self.ranges)} drafts in memory, K is {self.capacity}"
        assert sum(high - low for low, high in self.ranges.values()) <= self.budget


class Runners(dict[ResidentDraft, BoundDraft]):
    """Kill a runner the moment the Loader lets go of it: whoever uses it then fails loudly."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def pop(self, draft: ResidentDraft, default: object = None) -> BoundDraft | None:  # type: ignore[override]
        self._memory.ranges.pop(draft.name, None)
        bound = super().pop(draft, None)
        if bound is not None:
            assert isinstance(bound.runner, ToyRunner)
            bound.runner.alive = False
        return bound


@dataclass
class Faults:
    """How often what goes wrong."""

    load_fails: float = 0.0
    load_crashes: float = 0.0
    rank_crashes: float = 0.0
    progress_crashes: float = 0.0
    statistics_crash: float = 0.0
    session_crashes: float = 0.0
    rank_s: float = 0.005  # the longest that a ranking takes


class Reader:
    """Load toy drafts; fails and crashes at random."""

    emulated = False

    def __init__(self, rng: random.Random, faults: Faults, memory: Memory, seed: int) -> None:
        self._rng, self._faults, self._memory, self._seed = rng, faults, memory, seed

    def read(
        self,
        draft: str,
        placements: Sequence[Placement],
        cancelled: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> ReadDraft:
        (placement,) = placements
        if cancelled():
            return ReadDraft(LoadReport(0, 0.0, False, True), None, 17)
        if self._rng.random() < self._faults.load_crashes:
            raise RuntimeError("the reader has a bug")
        if self._rng.random() < self._faults.load_fails:
            raise LoadError(f"{draft}.safetensors: ends 1 byte early")
        progress(placement.nbytes, placement.nbytes)
        rate = 0.0 if draft == "a" else 0.3
        runner = ToyRunner(seed=self._seed, error_rate=rate, error_seed=ord(draft))
        return ReadDraft(LoadReport(placement.nbytes, 0.01, False, False), runner, 17)


class ShiftingRanker:
    """Want other drafts at every scheduling point."""

    def __init__(self, rng: random.Random, faults: Faults) -> None:
        self._rng, self._faults = rng, faults

    def rank(self, context: RankingContext) -> Ranking:
        if self._rng.random() < self._faults.rank_crashes:
            raise RuntimeError("the ranker has a bug")
        order = self._rng.sample(DRAFTS, self._rng.randint(1, len(DRAFTS)))
        return Ranking(tuple(order), tuple(1.0 / (i + 1) for i in range(len(order))))

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing."""


class FragileCounters(SpeculationCounters):
    def __init__(self, rng: random.Random, faults: Faults) -> None:
        super().__init__()
        self._rng, self._faults = rng, faults

    def add_report(self, report: object) -> None:
        if self._rng.random() < self._faults.statistics_crash:
            raise RuntimeError("the statistics have a bug")


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
        top = {"read": 0.08, "step": 0.012, "prefill": 0.02, "warm": 0.01}.get(name, self.faults.rank_s)
        cost = self.rng.uniform(0.0, top)
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
        return DecodeSession(
            target=self.target,
            request=request,
            num_ids=17,
            accept=acceptance_rule(request.accept, greedy=request.sampling.greedy),
            stop_rule=stop_rule(request.stop_rule),
            state=CommitState(
                ToyText(),
                end_ids=frozenset(),
                stop=(),
                include_stop=False,
                max_new_tokens=request.max_new_tokens,
                context_left=1000,
            ),
            watches_catch_up=parse_policy(request.policy, DRAFTS).watches_catch_up,
        )

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


@pytest.mark.parametrize("block", range(10))
def test_invariants_hold_in_every_interleaving_of_five_requests(block: int, tmp_path: Path) -> None:
    """Behaviours 7, 14, 15: five requests, some of them naming one of five drafts while two fit."""

    async def scenario(world: World) -> None:
        policies = [world.rng.choice([*POLICIES, f"static:{name}"]) for name in DRAFTS]
        streams = [world.request(i, policy) for i, policy in enumerate(policies)]
        results = await asyncio.gather(*map(read_to_end, streams))
        for stream, result in zip(streams, results, strict=True):
            assert result.token_ids == world.reference(stream), "invariant 5"
            assert result.finish_reason == "length"

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        world = run_world(seed, path, Faults(load_fails=0.1 if seed % 2 else 0.0), scenario)
        check_log(path, 5, world.memory.budget, 2)
        assert not world.crashes


def test_a_seed_gives_the_same_history_again(tmp_path: Path) -> None:
    """A failure of these tests could not be looked into: the next run would be another one."""

    async def scenario(world: World) -> None:
        await asyncio.gather(*(read_to_end(world.request(i, policy)) for i, policy in enumerate(POLICIES)))

    def history(path: Path) -> list[object]:
        run_world(5, path, Faults(load_fails=0.1), scenario)
        read = [event for event in read_events(path) if isinstance(event, Event)]
        return [
            (event.draft, event.accepted, event.epoch)
            if isinstance(event, events.Iteration)
            else (type(event), getattr(event, "draft", None), getattr(event, "order", None))
            for event in read
        ]

    assert history(tmp_path / "once") == history(tmp_path / "again")


def test_a_request_that_names_a_draft_gets_it_whoever_else_waits(tmp_path: Path) -> None:
    """Behaviour 14: five requests, five drafts, room for one or two; a draft of another request might stay for ever."""

    async def scenario(world: World) -> None:
        streams = [world.request(i, f"static:{name}") for i, name in enumerate(DRAFTS)]
        results = await asyncio.gather(*map(read_to_end, streams))
        for name, result in zip(DRAFTS, results, strict=True):
            assert result.scheduling.drafts.keys() == {name}
            assert result.scheduling.drafts[name].iterations > 0

    for seed in range(5):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)


@pytest.mark.parametrize("block", range(5))
def test_generation_goes_on_whoever_dies(block: int, tmp_path: Path) -> None:
    """Invariant 7: every actor but the Decoder crashes again and again."""
    crashed: set[str] = set()

    async def scenario(world: World) -> None:
        for i in range(3):
            stream = world.request(i, max_new_tokens=60)
            result = await read_to_end(stream)
            assert result.token_ids == world.reference(stream)
            await asyncio.sleep(60.0)  # so that the restart limits are not exceeded

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        faults = Faults(load_crashes=0.1, rank_crashes=0.05, progress_crashes=0.1, statistics_crash=0.01)
        world = run_world(seed, path, faults, scenario)
        crashed |= {crash.actor for crash in world.crashes}
        records = check_log(path, 3, world.memory.budget, 2)
        assert sum(isinstance(event, events.ActorCrashed) for event in records) == len(world.crashes)
    assert crashed == {"predictor", "cache_manager", "loader", "verifier_stats"}


@pytest.mark.parametrize("seed", range(10))
def test_generation_goes_on_when_what_it_waits_for_dies(seed: int, tmp_path: Path) -> None:
    """Invariant 7 where rules learn in step: thresholds that never come would hang the request."""

    async def scenario(world: World) -> None:
        for i in range(3):
            stream = world.request(i, max_new_tokens=60)
            result = await read_to_end(stream)
            assert result.token_ids == world.reference(stream)
            await asyncio.sleep(60.0)

    run_world(seed, tmp_path / "log.jsonl", Faults(statistics_crash=0.02), scenario, prediction="inline")


@pytest.mark.parametrize("block", range(5))
def test_abandoning_a_stream_at_any_moment_leaves_nothing_behind(block: int, tmp_path: Path) -> None:
    """Behaviour 18: break, cancellation, timeout and cancel() at random moments; the next request is served as ever."""

    async def abandon(world: World, index: int) -> None:
        stream = world.request(index, max_new_tokens=400)
        how = world.rng.choice(["break", "timeout", "task", "cancel"])
        if how == "break":
            async for _ in stream:
                if world.rng.random() < 0.2:
                    break
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(world.rng.uniform(0, 0.2)):
                    await read_to_end(stream)
        elif how == "task":
            task = asyncio.create_task(read_to_end(stream))
            await asyncio.sleep(world.rng.uniform(0, 0.2))
            task.cancel()
            await asyncio.wait((task,))
        else:
            asyncio.get_running_loop().call_later(world.rng.uniform(0.001, 0.2), stream.cancel)
            result = await read_to_end(stream)
            assert result.finish_reason == "cancelled"
            assert result.token_ids == world.reference(stream)[: len(result.token_ids)]

    async def scenario(world: World) -> None:
        await asyncio.gather(*(abandon(world, i) for i in range(4)))
        stream = world.request(4)
        result = await read_to_end(stream)
        assert result.token_ids == world.reference(stream)
        assert not world.requests._open

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        world = run_world(seed, path, Faults(load_fails=0.05), scenario)
        records = [event for event in read_events(path) if isinstance(event, Event)]
        accepted = [event.request_id for event in records if isinstance(event, events.RequestAccepted)]
        check = [event.request_id for event in records if isinstance(event, events.RequestFinished)]
        assert sorted(map(str, accepted)) == sorted(map(str, check)), "invariant 8"
        assert not world.crashes


def test_inline_prediction_waits_and_says_so(tmp_path: Path) -> None:
    """With inline prediction every interval is decoded with its own ranking; the log must show the wait."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        assert (await read_to_end(stream)).token_ids == world.reference(stream)

    run_world(3, tmp_path / "log", Faults(), scenario, prediction="inline")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    assert any(event.waited_for == "prediction" and event.waited_us > 0 for event in records)


def test_mab_sync_never_drafts_with_a_second_choice_and_says_that_it_waited(tmp_path: Path) -> None:
    """The blocking baseline of the paper would fall back like the asynchronous one, or hide where its time went."""
    results: list[GenerationResult] = []

    async def scenario(world: World) -> None:
        stream = world.request(0, "mab-sync", max_new_tokens=80)
        results.append(await read_to_end(stream))
        assert results[-1].token_ids == world.reference(stream)

    for seed in range(10):
        path = tmp_path / f"{seed}"
        run_world(seed, path, Faults(), scenario, capacity=1 + seed % 2)
        records = [event for event in read_events(path) if isinstance(event, events.Iteration)]
        assert {event.share for event in records if event.drafted} == {"desired"}
        waits = [event for event in records if event.waited_for == "load"]
        assert waits and all(event.waited_us > 0 for event in waits)
        share = results[-1].scheduling.share
        assert share.waited > 0 and share.fallback == 0


def test_a_results_loads_evictions_and_switches_are_those_of_the_log(tmp_path: Path) -> None:
    """A result would tell of fewer than there were: announcements overtake one another, and drafts go unannounced."""
    results: list[GenerationResult] = []

    async def scenario(world: World) -> None:
        results.extend([await read_to_end(world.request(i, max_new_tokens=80)) for i in range(2)])

    for seed in range(8):
        results.clear()
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)
        found = {f"r{i}": [0, 0, 0] for i in range(2)}
        request, draft = None, ""
        for event in read_events(tmp_path / f"{seed}"):
            match event:
                case events.RequestAccepted():
                    request, draft = event.request_id, ""
                case events.RequestFinished():
                    request = None
                case events.DraftLoadFinished() if request:
                    found[request][0] += 1
                case events.DraftEvicted() if request:
                    found[request][1] += 1
                case events.Iteration(draft=ResidentDraft(name=name)) if request:
                    found[request][2] += draft not in ("", name)
                    draft = name
                case _:
                    pass
        told = [[r.scheduling.loads, r.scheduling.evictions, r.scheduling.switches] for r in results]
        assert told == list(found.values())


def test_a_ranking_that_does_not_come_is_waited_for_once_an_interval(tmp_path: Path) -> None:
    """Invariant 7: with inline prediction a Predictor that hangs would cost its deadline at every single iteration."""

    async def scenario(world: World) -> None:
        for i, policy in enumerate(("memspec", "target-only")):
            stream = world.request(i, policy)
            assert (await read_to_end(stream)).token_ids == world.reference(stream)

    run_world(1, tmp_path / "log", Faults(rank_s=1e4), scenario, prediction="inline")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    waits = [(event.request_id, event.interval) for event in records if event.waited_for == "prediction"]
    assert waits
    assert len(waits) == len(set(waits)) < len(records)
    assert {request_id for request_id, _ in waits} == {"r0"}, "a policy without a predictor waits for none"


def test_another_event_loop_is_refused(tmp_path: Path) -> None:
    """Queues and futures of one loop are not to be touched from another: a stream would hang now and then."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        with pytest.raises(UsageError, match="another event loop"), ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, read_to_end(stream)).result()

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_a_stream_cancelled_before_it_was_read_gives_nothing(tmp_path: Path) -> None:
    """A cancel that came early would be forgotten, and the whole text generated."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        stream.cancel()
        result = await read_to_end(stream)
        assert (result.text, result.finish_reason) == ("", "cancelled")

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_sampled_text_depends_on_the_seed_alone(tmp_path: Path) -> None:
    """Behaviour 11: whatever drafts are resident when, and whatever else runs."""
    texts = set()

    async def scenario(world: World) -> None:
        world.target._seed = world.reader._seed = 1
        others = [world.request(i) for i in range(3)] if world.seed % 2 else []
        stream = world.request(9, temperature=1.0)
        *_, result = await asyncio.gather(*map(read_to_end, [*others, stream]))
        texts.add(result.token_ids)

    for seed in range(20):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)
    assert len(texts) == 1


def test_a_decoder_that_dies_fails_its_requests_by_name_and_serves_the_next(tmp_path: Path) -> None:
    """Behaviour 20: nobody waits for ever on a dead actor."""

    async def scenario(world: World) -> None:
        bad, waiting = world.request(0), world.request(1)
        world.target.alive = False  # the target's forward pass fails with an AssertionError
        outcomes = await asyncio.gather(read_to_end(bad), read_to_end(waiting), return_exceptions=True)
        assert all(isinstance(error, MemSpecError) and "'decoder'" in str(error) for error in outcomes), outcomes
        world.target.alive = True
        stream = world.request(2)
        assert (await read_to_end(stream)).token_ids == world.reference(stream)

    world = run_world(0, tmp_path / "log", Faults(), scenario)
    assert [crash.actor for crash in world.crashes] == ["decoder"]
    check_log(tmp_path / "log", 3, world.memory.budget, 2)


def test_a_full_mailbox_costs_neither_drafts_nor_cancellations(tmp_path: Path) -> None:
    """Behaviour 21: however full the Decoder's mailbox, what the CacheManager and a leaving caller send gets in."""

    async def flood(world: World) -> None:
        for index in itertools.count(2):
            stream = world.request(index, "static:a", max_new_tokens=1)
            try:
                world.wired.decoder.tell(Generate(request=stream.request, sink=stream, submitted_at=0.0))
            except MailboxFull:
                await asyncio.sleep(0.001)

    async def scenario(world: World) -> None:
        first = asyncio.create_task(read_to_end(world.request(0, "static:a")))
        second = asyncio.create_task(read_to_end(world.request(1, "static:a")))
        await asyncio.sleep(0.001)
        flooding = asyncio.create_task(flood(world))
        await asyncio.sleep(0.01)
        second.cancel()
        result = await first
        flooding.cancel()
        assert result.scheduling.drafts["a"].iterations > 0, "the draft was never announced"
        assert not world.requests._open

    world = run_world(0, tmp_path / "log", Faults(), scenario)
    assert not world.crashes
    finished = [event for event in read_events(tmp_path / "log") if isinstance(event, events.RequestFinished)]
    assert [event.finish_reason for event in finished if event.request_id == "r1"] == ["cancelled"]


def test_too_many_open_requests_are_refused(tmp_path: Path) -> None:
    """Behaviour 21: a caller that goes on asking must hear that it is too much, and not fill the memory."""

    async def scenario(world: World) -> None:
        streams = [world.request(i, "target-only", max_new_tokens=1) for i in range(MAX_OPEN_REQUESTS + 1)]
        for stream in streams[:-1]:
            world.requests.submit(stream)
            await asyncio.sleep(0.0001)  # long enough for the Decoder to take some of them out of its mailbox
        with pytest.raises(Overloaded, match="try again"):
            world.requests.submit(streams[-1])
        world.requests.leave(streams[0])
        world.requests.submit(streams[-1])
        for stream in streams:
            world.requests.leave(stream)

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_a_request_whose_session_cannot_be_opened_is_failed_too(tmp_path: Path) -> None:
    """Invariant 8: between queue and decoding a request belongs to nobody's list; its caller would wait for ever."""

    async def scenario(world: World) -> None:
        outcomes = await asyncio.gather(*(read_to_end(world.request(i)) for i in range(2)), return_exceptions=True)
        assert all(isinstance(error, MemSpecError) and "no memory" in str(error) for error in outcomes), outcomes

    world = run_world(0, tmp_path / "log", Faults(session_crashes=1.0), scenario)
    check_log(tmp_path / "log", 2, world.memory.budget, 2)
