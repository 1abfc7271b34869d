"""Stopping: in order, within the deadline, with nobody left waiting and no task left behind."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import anyio
import pytest

from memspec_actors.errors import ActorDied
from memspec_actors.runtime import (
    Actor,
    ActorRef,
    ActorSystem,
    Crashed,
    DeadLetter,
    Mailbox,
    RestartPolicy,
    RuntimeEvent,
)
from memspec_actors.runtime.testing import run_virtual


class Worker(Actor[float]):
    """Work as many seconds as told and note begin and end."""

    def __init__(self, diary: list[str]) -> None:
        self.diary = diary

    async def started(self) -> None:
        self.diary.append(f"{self.name} started")

    async def receive(self, message: float) -> float:
        self.diary.append(f"{self.name} begins {message:g}")
        await anyio.sleep(message)
        self.diary.append(f"{self.name} ends {message:g}")
        return message

    async def stopped(self) -> None:
        await anyio.sleep(0.001)
        self.diary.append(f"{self.name} stopped")


def test_starts_in_order_and_stops_in_reverse() -> None:
    """An actor would talk to one that is not there yet, or is gone already."""
    diary: list[str] = []

    async def scenario() -> None:
        system = ActorSystem()
        for name in "abc":
            system.spawn(name, lambda: Worker(diary))
        async with system:
            assert diary == ["a started", "b started", "c started"]

    for seed in range(20):
        diary.clear()
        run_virtual(scenario, seed=seed)
        assert diary[3:] == ["c stopped", "b stopped", "a stopped"]


def test_running_handler_finishes_and_nothing_more_is_delivered() -> None:
    """A stop would tear work apart, or drag on over everything still queued."""
    diary: list[str] = []
    events: list[RuntimeEvent] = []

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("w", lambda: Worker(diary))
        async with system:
            running = asyncio.create_task(ref.ask(2.0, timeout_s=None))
            await anyio.sleep(0.1)
            ref.tell(0.5)
            queued = asyncio.create_task(ref.ask(0.25, timeout_s=None))
            await anyio.sleep(0.1)
        assert await running == 2.0
        with pytest.raises(ActorDied, match="'w' was stopped"):
            await queued

    run_virtual(scenario)
    assert diary == ["w started", "w begins 2", "w ends 2", "w stopped"]
    assert events == [DeadLetter("w", "float")]


def test_handler_beyond_the_deadline_is_cancelled_and_reported() -> None:
    """One stuck handler would hold up the exit for ever."""
    diary: list[str] = []
    events: list[RuntimeEvent] = []

    async def scenario() -> float:
        system = ActorSystem(observer=events.append, stop_timeout_s=3.0)
        ref = system.spawn("stuck", lambda: Worker(diary))
        async with system:
            waiting = asyncio.create_task(ref.ask(1000.0, timeout_s=None))
            await anyio.sleep(1.0)
        with pytest.raises(ActorDied):
            await waiting
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == pytest.approx(4.001)
    assert diary == ["stuck started", "stuck begins 1000", "stuck stopped"]
    (crash,) = events
    assert isinstance(crash, Crashed) and "did not stop within 3 s" in str(crash.error)
    assert crash.stopping


def test_clean_up_beyond_the_deadline_is_cancelled_and_reported() -> None:
    """A clean-up that hangs would hold up the exit for ever."""
    events: list[RuntimeEvent] = []

    class Hanging(Worker):
        async def stopped(self) -> None:
            await anyio.sleep_forever()

    async def scenario() -> float:
        system = ActorSystem(observer=events.append, stop_timeout_s=3.0)
        system.spawn("h", lambda: Hanging([]))
        async with system:
            pass
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) <= 6.0
    assert events and all(isinstance(event, Crashed) for event in events)


def test_stop_interrupts_a_back_off() -> None:
    """Leaving would wait for the restart of an actor that nobody needs any more."""

    class Doomed(Actor[str]):
        async def receive(self, message: str) -> None:
            raise ValueError(message)

    async def scenario() -> float:
        system = ActorSystem()
        ref = system.spawn("doomed", Doomed)
        async with system:
            for _ in range(4):
                ref.tell("x")
            await anyio.sleep(0.2)  # in the third back-off
            late = asyncio.create_task(ref.ask("late", timeout_s=None))
            await anyio.sleep(0.01)
        with pytest.raises(ActorDied):
            await late
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == pytest.approx(0.21)


def test_stop_ends_the_children() -> None:
    """Work beside the messages would go on after the stop, or hold it up."""
    ended: list[str] = []

    class Parent(Actor[str]):
        async def started(self) -> None:
            self.tasks.start_soon(self.linger)

        async def linger(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(self.name)

    async def scenario() -> float:
        system = ActorSystem()
        system.spawn("parent", Parent)
        async with system:
            await anyio.sleep(1.0)
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == 1.0
    assert ended == ["parent"]


def test_crash_of_the_last_handler_is_reported_but_no_failure() -> None:
    """An error on the way out would be reported as the reason for the stop, or not at all."""
    events: list[RuntimeEvent] = []

    class Last(Actor[str]):
        async def receive(self, message: str) -> None:
            await anyio.sleep(1.0)
            raise ValueError(message)

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("last", Last, restart=RestartPolicy(max_restarts=0))
        async with system:
            ref.tell("on the way out")
            await anyio.sleep(0.5)
        assert system.failure is None

    run_virtual(scenario)
    assert [type(event) for event in events] == [Crashed]


def test_own_loop_sees_the_closed_inbox() -> None:
    """An actor in the middle of long work could not know that it should stop."""
    steps = 0

    class Decoder(Actor[str]):
        async def run(self, inbox: Mailbox[str]) -> None:
            nonlocal steps
            while not inbox.closed:
                while (envelope := inbox.receive_nowait()) is not None:
                    await self.handle(envelope)
                await anyio.sleep(0.01)
                steps += 1

        async def receive(self, message: str) -> str:
            return message.upper()

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("decoder", Decoder)
        async with system:
            assert await ref.ask("token", timeout_s=1.0) == "TOKEN"
            await anyio.sleep(1.0)

    run_virtual(scenario)
    assert 100 <= steps <= 103


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("how", ["task", "scope"])
def test_cancelled_body_stops_in_order_and_the_cancellation_goes_on(seed: int, how: str) -> None:
    """Cancellation would be swallowed, or would leave actors running."""
    diary: list[str] = []

    async def body() -> None:
        system = ActorSystem()
        refs = [system.spawn(name, lambda: Worker(diary)) for name in "ab"]
        async with system:
            refs[0].tell(2.0)
            await anyio.sleep_forever()

    async def scenario() -> None:
        if how == "scope":
            with anyio.move_on_after(1.0) as scope:
                await body()
            assert scope.cancelled_caught
        else:
            task = asyncio.create_task(body())
            await anyio.sleep(1.0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(scenario, seed=seed)
    assert diary[-3:] == ["b stopped", "a ends 2", "a stopped"]


def test_second_cancellation_kills() -> None:
    """A second Ctrl-C would have to wait for the whole deadline."""
    diary: list[str] = []

    async def body() -> None:
        system = ActorSystem(stop_timeout_s=100.0)
        ref = system.spawn("w", lambda: Worker(diary))
        async with system:
            ref.tell(1000.0)
            await anyio.sleep(1.0)

    async def scenario() -> float:
        task = asyncio.create_task(body())
        await anyio.sleep(2.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == pytest.approx(2.001)
    assert diary[-1] == "w stopped"


def test_cancelled_while_starting_stops_what_had_started() -> None:
    """An interrupted start would leave half a system running."""
    diary: list[str] = []

    class Slow(Worker):
        async def started(self) -> None:
            await anyio.sleep(1000.0)

    async def body() -> None:
        system = ActorSystem()
        system.spawn("quick", lambda: Worker(diary))
        system.spawn("slow", lambda: Slow(diary))
        async with system:
            pytest.fail("the block must not be entered")

    async def scenario() -> float:
        with anyio.move_on_after(1.0):
            await body()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == pytest.approx(1.002)
    assert diary == ["quick started", "slow stopped", "quick stopped"]


def test_may_be_entered_and_left_in_different_tasks() -> None:
    """A system opened in an async generator or fixture would break over a cancel scope of another task."""
    diary: list[str] = []

    async def opened() -> AsyncIterator[ActorRef[float]]:
        system = ActorSystem()
        ref = system.spawn("w", lambda: Worker(diary))
        async with system:
            yield ref

    async def scenario() -> None:
        generator = opened()

        async def step() -> ActorRef[float]:
            return await anext(generator)

        ref = await asyncio.create_task(step())
        assert await asyncio.create_task(ref.ask(1.0, timeout_s=5.0)) == 1.0
        with pytest.raises(StopAsyncIteration):
            await asyncio.create_task(step())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(scenario)
    assert diary[-1] == "w stopped"


@pytest.mark.parametrize("place", ["system", "generator"])
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_system_that_nobody_left_stops_at_the_end_of_the_process(place: str, loop: str) -> None:
    """CPython 3.11 would crash on tasks that still wait; a generator that entered it would never come to its end."""
    program = f"""
import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from memspec_actors.runtime import Actor, ActorSystem, MailboxPolicy, Workers

class Busy(Actor[str]):
    async def receive(self, message):
        await workers.run(print, message)
    async def stopped(self):
        print(await workers.run(str, "stopped"))

@asynccontextmanager
async def opened():
    try:
        async with system:
            yield system
    finally:
        print("left")

async def main():
    place = opened() if {place!r} == "generator" else system
    await place.__aenter__()
    await ref.ask("asked", timeout_s=30)
    return place

workers, system = Workers("w"), ActorSystem()
ref = system.spawn("busy", Busy, mailbox=MailboxPolicy(beside=frozenset([int])))
loop = asyncio.new_event_loop()
place = loop.run_until_complete(main())
if {loop!r} == "closed":
    loop.close()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    told = ["asked"]
    if loop == "open":  # on a closed one nothing can be awaited any more
        told += ["stopped", *(["left"] if place == "generator" else [])]
    assert (ended.returncode, ended.stderr, ended.stdout.split()) == (0, "", told)
