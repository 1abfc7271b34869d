"""The virtual-time loop: fast, shuffled, repeatable, and loud about deadlocks."""

import asyncio
import time

import anyio
import pytest

from memspec_actors.runtime.testing import Deadlock, VirtualTimeLoop, run_virtual


async def race() -> str:
    """Return the order in which eight tasks take their turns."""
    turns: list[str] = []

    async def take_turns(name: str) -> None:
        for _ in range(3):
            turns.append(name)
            await asyncio.sleep(0)

    async with anyio.create_task_group() as group:
        for name in "abcdefgh":
            group.start_soon(take_turns, name)
    return "".join(turns)


def test_same_seed_same_trace_and_different_seeds_differ() -> None:
    """A failing history could not be replayed, or thousands of seeds would be one and the same history."""
    traces = [run_virtual(race, seed=seed) for seed in range(50)]
    assert traces == [run_virtual(race, seed=seed) for seed in range(50)]
    assert len(set(traces)) == 50


def test_cancellation_of_many_tasks_is_repeatable() -> None:
    """Scopes keep their tasks in sets ordered by address; a seed would not fix the order of their ends."""

    async def scenario() -> list[int]:
        ended: list[int] = []

        async def wait(i: int) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(i)

        async with anyio.create_task_group() as group:
            for i in range(30):
                group.start_soon(wait, i)
            await anyio.sleep(1.0)
            group.cancel_scope.cancel()
        return ended

    traces = set()
    kept = []  # moves the addresses of what comes later
    for i in range(10):
        kept.append([object() for _ in range(1000 * i)])
        traces.add(tuple(run_virtual(scenario, seed=3)))
    assert len(traces) == 1


def test_plain_callbacks_keep_their_order() -> None:
    """Code that relies on asyncio's promise would fail in simulation only."""

    async def scenario() -> list[int]:
        ran: list[int] = []
        for i in range(20):
            asyncio.get_running_loop().call_soon(ran.append, i)
        await asyncio.sleep(1.0)
        return ran

    for seed in range(10):
        assert run_virtual(scenario, seed=seed) == list(range(20))


def test_time_jumps_and_timers_fire_in_order() -> None:
    """Simulated hours would take hours, or timers would fire early or out of order."""

    async def scenario() -> list[tuple[float, float]]:
        loop, fired = asyncio.get_running_loop(), list[tuple[float, float]]()

        async def sleep(delay_s: float) -> None:
            await anyio.sleep(delay_s)
            fired.append((delay_s, loop.time()))

        async with anyio.create_task_group() as group:
            for delay_s in (86_400.0 * 3, 5.0, 3_600.0, 0.001):
                group.start_soon(sleep, delay_s)
        return fired

    began = time.monotonic()
    fired = run_virtual(scenario)
    assert time.monotonic() - began < 10.0
    assert [delay_s for delay_s, _ in fired] == [0.001, 5.0, 3_600.0, 86_400.0 * 3]
    assert all(now_s == pytest.approx(delay_s) for delay_s, now_s in fired)


def test_deadlock_raises_and_names_who_waits() -> None:
    """A test of a system that has locked up would hang instead of failing."""

    async def scenario() -> None:
        async def stuck() -> None:
            await asyncio.Event().wait()

        await asyncio.create_task(stuck(), name="the-stuck-one")

    with pytest.raises(Deadlock, match=r"every task waits for another: .*the-stuck-one: .*stuck"):
        run_virtual(scenario)


def test_loop_works_without_anyio() -> None:
    """The loop could not be given to asyncio's own runner or a fixture."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(7)) as runner:
        assert runner.run(race()) == run_virtual(race, seed=7)
