"""The main job on the embedded models, through the public library."""

import asyncio
import gc
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.config import DraftConfig, EventsConfig, ScheduleConfig, StorageConfig, TargetConfig
from memspec_actors.errors import CheckpointError, ConfigError, EngineClosed, IncompatibleDraft, InvalidRequest
from memspec_actors.models.lean.cache import KvCache
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.protocols import events
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader, PlanStep
from memspec_actors.scheduling.plans import write_plans
from memspec_actors.telemetry.reader import read_events
from memspec_actors.zoo import path as zoo_path
from memspec_actors.zoo.world import sample_phases, sample_request
from tests.patience import until

pytestmark = pytest.mark.anyio


def zoo_prompt(*phases: str, seed: int = 1) -> str:
    return sample_request(random.Random(f"eval:{seed}"), phases, split="eval").prompt_text


MIXED = zoo_prompt("medical", "code", "law", "math")


def with_events(path: Path, **schedule: object) -> Config:
    return Config(events=EventsConfig(path=str(path)), schedule=ScheduleConfig(**schedule))  # type: ignore[arg-type]


@asynccontextmanager
async def heartbeat() -> AsyncIterator[tuple[list[float], list[float]]]:
    """Collect the gaps between the beats of a 1 ms heart on this event loop, and what its thread computed in each.

    The collector rests meanwhile: looking through all that the tests have loaded is no work of the engine's.
    """
    gaps: list[float] = []
    busy: list[float] = []

    async def beat() -> None:
        last, last_busy = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, now_busy = time.perf_counter(), time.thread_time()
            gaps.append(now - last)
            busy.append(now_busy - last_busy)
            last, last_busy = now, now_busy

    task = asyncio.create_task(beat())
    gc.disable()
    try:
        yield gaps, busy
    finally:
        gc.enable()
        task.cancel()


POLICIES = (
    "target-only",
    "general-static",
    "static:law",
    "prediction-only",
    "mab-sync",
    "mab-async",
    "mab-exp3",
    "hedge",
    "memspec+",
)


async def test_greedy_text_equals_transformers_under_every_policy() -> None:
    """Speculation would change the text."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(zoo_path("target"), dtype=torch.float32)
    rng = random.Random("eval:identity")
    prompts: list[str] = [sample_request(rng, sample_phases(rng), split="eval").prompt_text for _ in range(6)]
    prompts += ["Who wrote the Odyssey?", "def fib(n):\n    ", "Ünïcödé ≠ ASCII; 日本語 🙂"]
    async with MemSpec.open() as engine:
        for number, prompt in enumerate(prompts):
            ids = engine.encode(prompt)
            inputs = torch.tensor([ids])
            output = model.generate(
                inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=64, do_sample=False,
                eos_token_id=list(engine.end_ids),
            )  # fmt: skip
            expected = tuple(output[0, len(ids) :].tolist())
            for policy in (POLICIES[number % len(POLICIES)], POLICIES[(number + 5) % len(POLICIES)], "memspec"):
                result = await engine.generate(prompt, max_new_tokens=64, policy=policy)
                assert result.token_ids == expected, f"{policy} on {prompt!r}"
                assert result.finish_reason == ("stop" if expected[-1] in engine.end_ids else "length")


async def test_an_answer_that_changes_domain_makes_drafts_come_and_go(tmp_path: Path) -> None:
    """The product's claim: predictions, prefetches, evictions and switches, and no wait for any of them."""
    path = tmp_path / "events.jsonl"
    async with MemSpec.open(with_events(path)) as engine:
        result = await engine.generate(MIXED, max_new_tokens=256)
    records = list(read_events(path))
    kinds = {type(record) for record in records}
    assert {
        events.SystemStarted, events.RequestAccepted, events.PredictionMade, events.RankingApplied,
        events.DraftLoadStarted, events.DraftLoadFinished, events.ResidencyAnnouncedEvent, events.DraftActivatedEvent,
        events.DraftRevoked, events.DraftEvicted, events.Iteration, events.IntervalFinished, events.RequestFinished,
        events.SystemStopped,
    } <= kinds  # fmt: skip
    assert result.scheduling.switches >= 2
    iterations = [record for record in records if isinstance(record, events.Iteration)]
    announced = {r.epoch: r.resident for r in records if isinstance(r, events.ResidencyAnnouncedEvent)}
    assert all(record.draft is None or record.draft in announced[record.epoch] for record in iterations)
    assert all(len(resident) <= 2 for resident in announced.values())
    assert [record.seq for record in records if isinstance(record, events.Event)] == list(range(1, len(records) + 1))


async def test_the_result_adds_up() -> None:
    """The figures that the JSON carries would contradict each other, the chunks or the engine's statistics."""
    async with MemSpec.open() as engine:
        stream = engine.stream(MIXED, max_new_tokens=200)
        chunks = [chunk async for chunk in stream]
        result = stream.result
        statistics = await engine.statistics()
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == result.token_ids
    spec = result.metrics.speculative_decoding
    assert sum(spec.acceptance_histogram) == spec.num_accepted_draft_tokens <= spec.num_draft_tokens
    assert spec.mean_acceptance_length == pytest.approx(1 + spec.num_accepted_draft_tokens / spec.num_spec_steps)
    drafts = result.scheduling.drafts
    plain_steps = sum(chunk.drafted == 0 for chunk in chunks)  # the prompt's encoding among them
    assert sum(figures.tokens for figures in drafts.values()) + plain_steps == len(result.token_ids)
    assert sum(figures.iterations for figures in drafts.values()) == spec.num_spec_steps
    share = result.scheduling.share
    assert share.desired + share.fallback + share.prediction + share.catch_up + share.target_only == pytest.approx(1)
    assert result.usage.completion_tokens == len(result.token_ids)
    assert statistics.speculative_decoding == spec
    assert result.lossless


@pytest.mark.parametrize("accept", ["match", "rejection"])
async def test_sampling_follows_the_targets_distribution(accept: str) -> None:
    """Lossless in distribution through the whole engine: the second token, over many seeds, against its exact law."""
    stats = pytest.importorskip("scipy.stats")
    from memspec_actors.models.checkpoints.checkpoint import Checkpoint
    from memspec_actors.models.weights.opening import open_runner

    runner = open_runner(Checkpoint.open(zoo_path("target")), dtype="float32")
    sampling = SamplingParams(temperature=2.0, top_k=4)
    num = 400
    async with MemSpec.open() as engine:
        ids = engine.encode("visit the harbour")
        texts = [
            (
                await engine.generate(
                    ids, max_new_tokens=3, sampling=replace(sampling, seed=seed), policy="static:law", accept=accept
                )
            ).token_ids
            for seed in range(num)
        ]
    expected: dict[tuple[int, ...], float] = {}
    logits = runner.forward(ids, runner.new_cache(64), last_only=True)[0]
    for p1, first in zip(*_top(logits), strict=True):
        logits2 = runner.forward([*ids, first], runner.new_cache(64), last_only=True)[0]
        for p2, second in zip(*_top(logits2), strict=True):
            expected[first, second] = p1 * p2
    observed = [sum(text[:2] == pair for text in texts) for pair in expected]
    assert sum(observed) == num, "a token outside the filter was drawn"
    kept = [(o, num * p) for o, p in zip(observed, expected.values(), strict=True) if num * p >= 5]
    rest = (num - sum(o for o, _ in kept), num - sum(e for _, e in kept))
    cells = [*kept, rest] if rest[1] >= 1 else kept
    scale = sum(o for o, _ in cells) / sum(e for _, e in cells)
    assert stats.chisquare([o for o, _ in cells], [e * scale for _, e in cells]).pvalue > 1e-5


def _top(logits: torch.Tensor) -> tuple[list[float], list[int]]:
    """Temperature 2, then the four likeliest: their probabilities and ids."""
    best = (logits.double() / 2.0).topk(4)
    return best.values.softmax(-1).tolist(), best.indices.tolist()


async def test_the_event_loop_never_blocks() -> None:
    """A server on this loop would miss its deadlines. (Loads are throttled so that they take long.)"""
    config = Config(storage=StorageConfig(bandwidth="20MB/s"))
    async with MemSpec.open(config) as engine, heartbeat() as (gaps, busy):
        await engine.generate(MIXED, max_new_tokens=120)
    assert len(gaps) > 20
    assert max(busy) < 0.05, f"the loop computed for {max(busy) * 1e3:.0f} ms"
    late = sorted(gaps)[-1 - len(gaps) // 50]  # other work on the machine may hold one beat in fifty up
    assert late < 0.2, f"the loop stood still for {late * 1e3:.0f} ms"


async def test_a_missing_draft_file_costs_only_that_draft(tmp_path: Path) -> None:
    """A draft's file vanishes after it was checked: generation would fail, or nobody would learn which file it was."""
    import shutil

    copy = tmp_path / "law"
    shutil.copytree(zoo_path("law"), copy)
    log = tmp_path / "events.jsonl"
    drafts = (DraftConfig(name="general"), DraftConfig(name="law", model=str(copy)))
    config = replace(with_events(log), drafts=drafts)
    async with MemSpec.open(config) as engine:
        (copy / "model.safetensors").unlink()
        reference = await engine.generate(MIXED, max_new_tokens=60, policy="target-only")
        with_failure = await engine.generate(MIXED, max_new_tokens=60, policy="static:law")  # its draft is tried again
        snapshot = engine.residency()
    assert with_failure.token_ids == reference.token_ids
    assert with_failure.scheduling.share.target_only == 1
    assert snapshot.unavailable == ("law",)
    assert snapshot.resident_bytes == snapshot.reserved_bytes == 0
    failures = [record for record in read_events(log) if isinstance(record, events.DraftLoadFailed)]
    assert failures and all(str(copy / "model.safetensors") in failure.error for failure in failures)


async def test_bad_input_is_refused_by_name(tmp_path: Path) -> None:
    """A user must learn what to put right, before anything is loaded or generated."""
    with pytest.raises(CheckpointError, match="nowhere"):
        async with MemSpec.open(Config(drafts=(DraftConfig(name="law", model=str(tmp_path / "nowhere")),))):
            pass
    with pytest.raises(ConfigError, match="general-static"):
        async with MemSpec.open(Config(schedule=ScheduleConfig(policy="general-statc"))):
            pass
    async with MemSpec.open() as engine:
        with pytest.raises(InvalidRequest, match="empty"):
            engine.stream(())
    with pytest.raises(EngineClosed):
        engine.stream("hello")
    with pytest.raises(EngineClosed):
        await engine.steer_draft("unload", "law")
    with pytest.raises(EngineClosed):
        await engine.statistics()


async def test_a_draft_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """Same size, other meaning of the ids: silently, acceptance would be near zero."""
    import json
    import shutil

    copy = tmp_path / "law"
    shutil.copytree(zoo_path("law"), copy)
    path = copy / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocab = tokenizer["model"]["vocab"]
    a, b = [token for token, index in vocab.items() if index in (300, 301)]
    vocab[a], vocab[b] = vocab[b], vocab[a]
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(IncompatibleDraft, match=r"draft 'law'.*id 300"):
        async with MemSpec.open(Config(drafts=(DraftConfig(name="law", model=str(copy)),), schedule=STATIC_LAW)):
            pass


async def test_a_target_without_drafts_is_served() -> None:
    """The reference that everything is compared with, and what a target given by path comes with."""
    async with MemSpec.open(Config(drafts=(), schedule=ScheduleConfig(policy="target-only"))) as engine:
        result = await engine.generate("hello", max_new_tokens=4, sampling=SamplingParams(ignore_eos=True))
    assert len(result.token_ids) == 4
    assert result.scheduling.share.target_only == 1


async def test_a_device_that_is_not_supported_is_refused() -> None:
    """Running on the CPU what was meant for a GPU would look like a slow GPU."""
    with pytest.raises(ConfigError, match=r"device is 'cuda:1'"):
        async with MemSpec.open(Config(target=TargetConfig(device="cuda:1"))):
            pass


STATIC_LAW = ScheduleConfig(policy="static:law")


async def test_closing_the_engine_ends_every_stream_and_task() -> None:
    """A stream left open would hang for ever."""
    before = asyncio.all_tasks()
    errors: list[Exception] = []

    async def read(engine: MemSpec) -> None:
        try:
            await engine.generate(MIXED, max_new_tokens=500, sampling=SamplingParams(ignore_eos=True))
        except EngineClosed as error:
            errors.append(error)

    async with MemSpec.open() as engine:
        tasks = [asyncio.create_task(read(engine)) for _ in range(3)]
        await until(lambda: engine.residency().active)
    await asyncio.gather(*tasks)
    assert len(errors) == 3
    assert asyncio.all_tasks() == before


async def test_listeners_that_raise_stop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bug in somebody's progress bar or counter would leave callers waiting for ever, or end the engine."""

    def fail(*heard: object) -> None:
        raise RuntimeError(f"a bug of {len(heard)}")

    async with MemSpec.open(with_events(tmp_path / "log"), on_load=fail, on_event=fail) as engine:
        async with asyncio.timeout(60):
            result = await engine.generate(MIXED, max_new_tokens=20)
            await until(lambda: bool(engine.residency().resident))
    assert result.usage.completion_tokens == 20
    assert {record.exc_text and record.exc_text.splitlines()[-1] for record in caplog.records} == {
        "RuntimeError: a bug of 1",
        "RuntimeError: a bug of 3",
    }
    assert not any(isinstance(event, events.ActorCrashed) for event in read_events(tmp_path / "log"))


async def test_closing_in_the_middle_of_loads_ends_them_in_the_log(tmp_path: Path) -> None:
    """Invariant 6 from the log alone; and storage that needs a minute for a draft must not hold the end up."""
    log = tmp_path / "events.jsonl"
    config = replace(with_events(log), storage=StorageConfig(bandwidth="50KB/s"))
    async with MemSpec.open(config) as engine:
        await engine.generate(MIXED, max_new_tokens=8)
        await until(lambda: len(engine.residency().loading) == 2)
        closing = time.perf_counter()
    assert time.perf_counter() - closing < 5
    records = list(read_events(log))
    started = [record.draft for record in records if isinstance(record, events.DraftLoadStarted)]
    ended = [record.draft for record in records if isinstance(record, LOAD_ENDS)]
    assert sorted(map(str, started)) == sorted(map(str, ended))
    assert isinstance(records[-1], events.SystemStopped)
    assert engine.residency().reserved_bytes == 0


LOAD_ENDS = (events.DraftLoadFinished, events.DraftLoadFailed, events.DraftLoadCancelled)


async def test_decoding_and_what_goes_on_beside_it_have_threads_of_their_own() -> None:
    """Ranking and loading would start as many threads as decoding, on the same cores."""
    before = torch.get_num_threads()
    async with MemSpec.open(Config(target=TargetConfig(threads=3, background_threads=2))) as engine:
        counts = {workers.name: await workers.run(torch.get_num_threads) for workers in engine._wired.workers}
    torch.set_num_threads(before)
    assert counts == {"decode": 3, "warm": 2, "rank": 2, "load": 2}


async def test_drafts_that_left_memory_keep_no_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long request would in the end hold the key/value caches of all drafts, which no memory plan counts."""
    made: list[weakref.ref[KvCache]] = []
    most_alive = 0
    original = LeanRunner.new_cache

    def new_cache(runner: LeanRunner, max_tokens: int) -> KvCache:
        nonlocal most_alive
        cache = original(runner, max_tokens)
        made.append(weakref.ref(cache))
        most_alive = max(most_alive, sum(each() is not None for each in made))
        return cache

    monkeypatch.setattr(LeanRunner, "new_cache", new_cache)
    async with MemSpec.open(Config(schedule=ScheduleConfig(policy="mab-sync", interval=1))) as engine:
        await engine.generate(MIXED, max_new_tokens=120, sampling=SamplingParams(ignore_eos=True))
        capacity = engine.config.memory.capacity
    assert len(made) > 1 + capacity  # every draft was explored
    assert most_alive <= 1 + capacity + 1  # the target's, those of K drafts, and the one that has just been revoked


async def test_an_oracle_follows_the_plan_of_its_prompt(tmp_path: Path) -> None:
    """The upper bound that every policy is measured by would be something else."""
    async with MemSpec.open() as engine:
        ids = engine.encode(MIXED)
        expected = (await engine.generate(MIXED, max_new_tokens=80, policy="target-only")).token_ids
        with pytest.raises(ConfigError, match="needs a plan file"):
            engine.stream(MIXED, policy="oracle-dynamic")
    drafts = ("general", "code", "math", "law", "medical")
    header = PlanHeader(
        format=PLAN_FORMAT,
        policy="oracle-dynamic",
        target="",
        drafts=dict.fromkeys(drafts, ""),
        interval=4,
        capacity=2,
        k=5,
    )
    steps = (PlanStep(0, ("law", "code")), PlanStep(40, ("code", "law")))
    write_plans(tmp_path / "plans", header, [Plan(prompt_ids=ids, steps=steps)])
    schedule = ScheduleConfig(policy="oracle-dynamic", plan=str(tmp_path / "plans"), prediction="inline")
    async with MemSpec.open(Config(schedule=schedule, events=EventsConfig(path=str(tmp_path / "log")))) as engine:
        result = await engine.generate(MIXED, max_new_tokens=80)
        assert result.token_ids == expected
        with pytest.raises(InvalidRequest, match="no plan for this prompt"):
            engine.stream("another prompt")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.PredictionMade)]
    orders = [event.order for event in records]
    assert orders[0] == ("law", "code") and orders[-1] == ("code", "law")
    assert set(result.scheduling.drafts) <= {"law", "code"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives threads a niceness of their own")
async def test_what_goes_on_beside_decoding_comes_second() -> None:
    """Decoding would wait for a ranking that runs on its core though another is idle."""
    async with MemSpec.open() as engine:
        await engine.generate(MIXED, max_new_tokens=60)
        niceness = {
            thread.name: os.getpriority(os.PRIO_PROCESS, thread.native_id)
            for thread in threading.enumerate()
            if thread.native_id and thread.name in ("decode", "rank", "load", "warm")
        }
    assert niceness.pop("decode") == os.getpriority(os.PRIO_PROCESS, 0)
    assert len(niceness) == 3
    assert all(value > os.getpriority(os.PRIO_PROCESS, 0) for value in niceness.values())
