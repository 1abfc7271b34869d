"""Lives and deaths of actors: restarts, limits, children, start-up and observers."""

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest

from memspec_actors.errors import ActorDied, ActorError, CheckpointError, SystemFailed
from memspec_actors.runtime import (
    Actor,
    ActorSystem,
    Crashed,
    Failed,
    Mailbox,
    MailboxPolicy,
    Restarted,
    RestartPolicy,
    RuntimeEvent,
)
from memspec_actors.runtime.testing import run_virtual


class Fragile(Actor[str]):
    """Do as told, and log every life in ``diary``."""

    def __init__(self, diary: list[str] | None = None) -> None:
        self.diary = [] if diary is None else diary

    async def started(self) -> None:
        self.diary.append(f"{self.name} started")

    async def stopped(self) -> None:
        self.diary.append(f"{self.name} stopped")

    async def receive(self, message: str) -> str:
        match message:
            case "crash":
                raise ValueError("told to")
            case "child":
                self.tasks.start_soon(self.fail_later)
            case "await cancelled":
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
        return message

    async def fail_later(self) -> None:
        await anyio.sleep(1.0)
        raise KeyError("child")


def test_restart_waits_for_the_back_off_and_keeps_the_tells() -> None:
    """Queued control messages would be lost in a crash, or the restart would come too early."""
    events: list[RuntimeEvent] = []
    heard: list[tuple[float, str]] = []

    class Listener(Fragile):
        async def receive(self, message: str) -> str:
            heard.append((asyncio.get_running_loop().time(), message))
            return await super().receive(message)

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("fragile", Listener, restart=RestartPolicy(backoff_s=1.0))
        async with system:
            for message in ("a", "crash", "b", "crash", "c"):
                ref.tell(message)
            await anyio.sleep(10.0)

    run_virtual(scenario)
    assert heard == [(0.0, "a"), (0.0, "crash"), (1.0, "b"), (1.0, "crash"), (3.0, "c")]
    assert [type(event) for event in events] == [Crashed, Restarted, Crashed, Restarted]
    assert [event.restarts for event in events if isinstance(event, Crashed | Restarted)] == [0, 1, 1, 2]
    assert [event.backoff_s for event in events if isinstance(event, Restarted)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("trigger", "error"), [("crash", ValueError), ("child", KeyError), ("await cancelled", ActorError)]
)
def test_every_kind_of_death_is_a_crash_and_is_survived(trigger: str, error: type[Exception]) -> None:
    """An actor would vanish without a word, for instance by awaiting something that somebody else cancelled."""
    events: list[RuntimeEvent] = []

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("fragile", Fragile)
        async with system:
            for _ in range(2):
                ref.tell(trigger)
                await anyio.sleep(3.0)
                assert await ref.ask("hello", timeout_s=1.0) == "hello"

    run_virtual(scenario)
    assert [type(event.error) for event in events if isinstance(event, Crashed)] == [error, error]


def test_crash_fails_asks_that_wait_for_room_in_a_mailbox_full_of_tells() -> None:
    """An ask that has not even entered the mailbox would sleep through the crash and the restart."""

    class Busy(Fragile):
        async def receive(self, message: str) -> str:
            await super().receive(message)
            await anyio.sleep(1000.0)
            return message

    async def scenario() -> float:
        system = ActorSystem(stop_timeout_s=0.0)
        ref = system.spawn("busy", Busy, mailbox=MailboxPolicy(1))
        async with system:
            ref.tell("child")
            await anyio.sleep(0.5)
            ref.tell("fills the mailbox")
            with pytest.raises(ActorDied, match="'busy' crashed: KeyError"):
                await ref.ask("waits for room", timeout_s=100.0)
            return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == pytest.approx(1.0)


def test_crash_ends_the_children_and_cleans_up() -> None:
    """A load begun by a dead incarnation would go on beside its successor's."""
    diary: list[str] = []

    class Parent(Fragile):
        async def receive(self, message: str) -> str:
            if message == "child":
                self.tasks.start_soon(self.linger)
            return await Fragile.receive(self, "" if message == "child" else message)

        async def linger(self) -> None:
            try:
                await anyio.sleep(1000.0)
            finally:
                diary.append("child ended")

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("p", lambda: Parent(diary))
        async with system:
            ref.tell("child")
            ref.tell("crash")
            await anyio.sleep(1.0)
            assert await ref.ask("alive?", timeout_s=1.0) == "alive?"

    run_virtual(scenario)
    assert diary == ["p started", "child ended", "p stopped", "p started", "p stopped"]


def test_loop_that_returns_early_is_a_crash() -> None:
    """An actor whose own loop ended by mistake would leave its senders talking to nobody."""
    events: list[RuntimeEvent] = []

    class Quitter(Actor[str]):
        async def run(self, inbox: Mailbox[str]) -> None:
            await inbox.receive()

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("quitter", Quitter)
        async with system:
            with pytest.raises(ActorDied, match=r"'quitter' crashed: .*returned although nobody stopped it"):
                await ref.ask("x", timeout_s=None)

    run_virtual(scenario)
    assert isinstance(events[0], Crashed)


def test_limit_exceeded_stops_the_system_and_says_why() -> None:
    """The system would limp on without one of its actors, or restart it for ever."""
    events: list[RuntimeEvent] = []
    diary: list[str] = []

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        healthy = system.spawn("healthy", lambda: Fragile(diary))
        ref = system.spawn("fragile", lambda: Fragile(diary), restart=RestartPolicy(max_restarts=2))
        async with system:
            ref.tell("crash")
            ref.tell("crash")
            ref.tell("crash")
            waiting = asyncio.create_task(ref.ask("x", timeout_s=None))
            failure = await system.wait_failed()
            assert failure is system.failure
            assert "actor 'fragile' crashed 3 times within 30 s, the last time with ValueError('told to')" in str(
                failure
            )
            with pytest.raises(ActorDied, match="'fragile' crashed"):
                await waiting
            with pytest.raises(ActorDied, match="'fragile' was not restarted after it crashed: ValueError"):
                await ref.ask("x", timeout_s=None)
            await anyio.sleep(1.0)  # the system stops though nobody has left the block
            assert diary[-1] == "healthy stopped"
            with pytest.raises(ActorDied, match="'healthy' was stopped: actor 'fragile' crashed 3 times"):
                await healthy.ask("x", timeout_s=None)

    run_virtual(scenario)
    failed = [event for event in events if isinstance(event, Failed)]
    assert [event.actor for event in failed] == ["fragile"]
    assert isinstance(failed[0].error, SystemFailed)
    assert diary.count("fragile started") == diary.count("fragile stopped") == 3


def test_an_actor_without_restarts_stops_the_system() -> None:
    """The system would go on after the one actor without which nothing works has lost its state."""

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("decoder", Fragile, restart=RestartPolicy(max_restarts=0))
        async with system:
            ref.tell("crash")
            failure = await system.wait_failed()
            assert str(failure) == "actor 'decoder' crashed with ValueError('told to'); the system stops"

    run_virtual(scenario)


def test_first_of_several_failures_is_the_one_that_counts() -> None:
    """The reason for a stop would be overwritten by what broke because of it."""
    events: list[RuntimeEvent] = []

    async def scenario() -> SystemFailed | None:
        system = ActorSystem(observer=events.append)
        refs = [system.spawn(name, Fragile, restart=RestartPolicy(max_restarts=0)) for name in ("one", "two")]
        async with system:
            for ref in refs:
                ref.tell("crash")
            await system.wait_failed()
            await anyio.sleep(1.0)
        return system.failure

    for seed in range(10):
        events.clear()
        failure = run_virtual(scenario, seed=seed)
        assert [event.error for event in events if isinstance(event, Failed)] == [failure]


def test_start_up_error_is_raised_as_it_is_after_the_others_stopped() -> None:
    """A missing checkpoint would show as a restart loop or as an exception group."""
    diary: list[str] = []

    class Broken(Fragile):
        async def started(self) -> None:
            raise CheckpointError("no such file")

    async def scenario() -> None:
        system = ActorSystem()
        system.spawn("first", lambda: Fragile(diary))
        broken = system.spawn("broken", lambda: Broken(diary))
        never = system.spawn("never", lambda: Fragile(diary))
        asks = [asyncio.create_task(ref.ask("x", timeout_s=None)) for ref in (broken, never)]
        with pytest.raises(CheckpointError, match="no such file"):
            async with system:
                pytest.fail("the block must not be entered")
        for ask in asks:
            with pytest.raises(ActorDied):
                await ask

    run_virtual(scenario)
    assert diary == ["first started", "broken stopped", "first stopped"]


def test_failure_during_a_long_start_ends_the_start() -> None:
    """Opening would go on loading a model for a system that has failed already."""

    class Slow(Fragile):
        async def started(self) -> None:
            await anyio.sleep(1000.0)

    async def scenario() -> float:
        system = ActorSystem()
        ref = system.spawn("fragile", Fragile, restart=RestartPolicy(max_restarts=0))
        system.spawn("slow", Slow)
        ref.tell("crash")
        with pytest.raises(SystemFailed, match="'fragile' crashed with"):
            await system.__aenter__()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario) == 0.0


def test_crash_in_a_later_start_counts_against_the_limit() -> None:
    """An incarnation that cannot even start would be tried for ever."""
    lives = 0

    class OnlyOnce(Fragile):
        async def started(self) -> None:
            nonlocal lives
            lives += 1
            if lives > 1:
                raise OSError("gone")

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("once", OnlyOnce, restart=RestartPolicy(max_restarts=3))
        async with system:
            ref.tell("crash")
            assert "OSError('gone')" in str(await system.wait_failed())

    run_virtual(scenario)
    assert lives == 4


def test_observer_that_raises_is_logged_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in the event log would take down the actors it reports about."""

    def observer(event: RuntimeEvent) -> None:
        raise RuntimeError("bad observer")

    async def scenario() -> None:
        system = ActorSystem(observer=observer)
        ref = system.spawn("fragile", Fragile)
        async with system:
            ref.tell("crash")
            await anyio.sleep(1.0)
            assert await ref.ask("x", timeout_s=None) == "x"

    with caplog.at_level(logging.ERROR):
        run_virtual(scenario)
    assert "bad observer" in caplog.text


def test_names_are_unique_and_spawning_ends_with_the_start() -> None:
    """Two actors could share a name, or one would never be started."""

    async def scenario() -> None:
        system = ActorSystem()
        system.spawn("a", Fragile)
        with pytest.raises(ValueError, match="'a' exists already"):
            system.spawn("a", Fragile)
        async with system:
            with pytest.raises(RuntimeError, match="started already"):
                system.spawn("b", Fragile)
        with pytest.raises(RuntimeError, match="only once"):
            await system.__aenter__()

    run_virtual(scenario)


@pytest.mark.parametrize("run", [asyncio.run, lambda coro: anyio.run(lambda: coro, backend="asyncio")])
def test_runs_under_plain_asyncio_and_anyio(run: Callable[..., None]) -> None:
    """A user who embeds the library could not choose how to start the loop."""

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("fragile", Fragile, restart=RestartPolicy(backoff_s=0.0))
        async with system:
            assert await ref.ask("x", timeout_s=5.0) == "x"
            with pytest.raises(ActorDied):
                await ref.ask("crash", timeout_s=5.0)
            assert await ref.ask("y", timeout_s=5.0) == "y"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(scenario())


def test_messages_beside_are_handled_during_work_and_survive_a_crash() -> None:
    """Whoever may be served beside an actor's work would wait for its end, or be lost with the actor."""
    events: list[RuntimeEvent] = []
    heard: list[tuple[float, str]] = []

    class Busy(Actor[str | int]):
        async def run(self, inbox: Mailbox[str | int]) -> None:
            while not inbox.closed:
                await anyio.sleep(4.0)
                while (envelope := inbox.receive_nowait()) is not None:
                    await self.handle(envelope)

        async def receive(self, message: str | int) -> None:
            heard.append((asyncio.get_running_loop().time(), str(message)))
            if message == 2:
                raise ValueError("told to")

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        mailbox = MailboxPolicy(latest={int: lambda value: value}, beside=frozenset({int}))
        ref = system.spawn("busy", Busy, mailbox=mailbox, restart=RestartPolicy(backoff_s=1.0))
        async with system:
            ref.tell("queued")
            for message in (1, 2, 3):
                await anyio.sleep(1.0)
                ref.tell(message)
            ref.tell(4)
            await anyio.sleep(6.0)

    run_virtual(scenario)
    assert heard == [(1.0, "1"), (2.0, "2"), (3.0, "3"), (3.0, "4"), (7.0, "queued")]
    assert [type(event) for event in events] == [Crashed, Restarted]
