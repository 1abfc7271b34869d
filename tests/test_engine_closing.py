"""An engine that is closed leaves nothing behind: no stream, no task, no load."""

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors import MemSpec, SamplingParams
from memspec_actors.config import StorageConfig
from memspec_actors.errors import EngineClosed
from memspec_actors.protocols import events
from memspec_actors.telemetry.reader import read_events
from tests.engines import MIXED, with_events
from tests.patience import until

pytestmark = pytest.mark.anyio

LOAD_ENDS = (events.DraftLoadFinished, events.DraftLoadFailed, events.DraftLoadCancelled)


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
