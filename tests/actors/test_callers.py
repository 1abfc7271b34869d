"""Callers that leave, crowd or come from elsewhere, on the wired actors in virtual time: none stays behind."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memspec_actors.errors import MailboxFull, Overloaded, UsageError
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import Generate
from memspec_actors.stream import MAX_OPEN_REQUESTS
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import Faults
from tests.actors.world import World, read_to_end, run_world


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
