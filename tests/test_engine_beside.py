"""What goes on beside decoding takes nothing from it: neither the event loop, nor cores, nor memory."""

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.config import ScheduleConfig, StorageConfig, TargetConfig
from memspec_actors.models.lean.cache import KvCache
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.protocols import events
from memspec_actors.telemetry.reader import read_events
from tests.engines import MIXED, with_events
from tests.patience import until

pytestmark = pytest.mark.anyio


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


async def test_the_event_loop_never_blocks() -> None:
    """A server on this loop would miss its deadlines. (Loads are throttled so that they take long.)"""
    config = Config(storage=StorageConfig(bandwidth="20MB/s"))
    async with MemSpec.open(config) as engine, heartbeat() as (gaps, busy):
        await engine.generate(MIXED, max_new_tokens=120)
    assert len(gaps) > 20
    assert max(busy) < 0.05, f"the loop computed for {max(busy) * 1e3:.0f} ms"
    late = sorted(gaps)[-1 - len(gaps) // 50]  # other work on the machine may hold one beat in fifty up
    assert late < 0.2, f"the loop stood still for {late * 1e3:.0f} ms"


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


async def test_decoding_and_what_goes_on_beside_it_have_threads_of_their_own() -> None:
    """Ranking and loading would start as many threads as decoding, on the same cores."""
    before = torch.get_num_threads()
    async with MemSpec.open(Config(target=TargetConfig(threads=3, background_threads=2))) as engine:
        counts = {workers.name: await workers.run(torch.get_num_threads) for workers in engine._wired.workers}
    torch.set_num_threads(before)
    assert counts == {"decode": 3, "warm": 2, "rank": 2, "load": 2}


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
