"""What senders see: answers, deadlines, deaths, dead letters, trace ids."""

import asyncio

import anyio
import pytest

from memspec_actors.errors import ActorDied, AskTimeout, MailboxFull
from memspec_actors.runtime import (
    Actor,
    ActorRef,
    ActorSystem,
    DeadLetter,
    Envelope,
    Mailbox,
    MailboxPolicy,
    RuntimeEvent,
    current_trace_id,
    tracing,
)
from memspec_actors.runtime.testing import run_virtual


class Sleeper(Actor[float]):
    """Sleep as long as the message says; answer with the number of messages handled by this instance."""

    def __init__(self, handled: list[float] | None = None) -> None:
        self.handled = [] if handled is None else handled

    async def receive(self, message: float) -> int:
        if message < 0:
            raise ValueError(f"cannot sleep {message} s")
        await anyio.sleep(message)
        self.handled.append(message)
        return len(self.handled)


def test_ask_is_answered_and_tells_are_handled_in_order() -> None:
    """Messages would be lost or overtaken on the way."""
    handled: list[float] = []

    async def scenario() -> int:
        system = ActorSystem()
        ref = system.spawn("sleeper", lambda: Sleeper(handled))
        ref.tell(0.3)  # before the start: it waits
        async with system:
            ref.tell(0.1)
            await ref.send(0.2)
            answer: int = await ref.ask(0.0, timeout_s=1.0)
            return answer

    assert run_virtual(scenario) == 4
    assert handled == [0.3, 0.1, 0.2, 0.0]


def test_ask_times_out_by_the_clock_and_names_actor_and_message() -> None:
    """A caller would hang on a slow actor, or not learn which one was slow."""
    handled: list[float] = []

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("sleeper", lambda: Sleeper(handled))
        loop = asyncio.get_running_loop()
        async with system:
            begin = loop.time()
            with pytest.raises(AskTimeout, match=r"'sleeper' did not answer float within 2 s"):
                await ref.ask(3.0, timeout_s=2.0)
            assert loop.time() - begin == pytest.approx(2.0)
            with pytest.raises(AskTimeout):
                await ref.ask(0.5, timeout_s=0.5)  # still queued behind the first: never delivered
            assert await ref.ask(0.25, timeout_s=None) == 2

    run_virtual(scenario)
    assert handled == [3.0, 0.25]


def test_ask_deadline_includes_waiting_for_room() -> None:
    """An ask to a full mailbox would outlive its deadline."""

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("sleeper", Sleeper, mailbox=MailboxPolicy(1))
        async with system:
            ref.tell(10.0)
            await anyio.sleep(0.1)
            ref.tell(0.0)  # fills the one place
            with pytest.raises(MailboxFull):
                ref.tell(0.0)
            with pytest.raises(AskTimeout):
                await ref.ask(0.0, timeout_s=1.0)

    run_virtual(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_cancelled_ask_leaves_no_mailbox_entry(seed: int) -> None:
    """An abandoned request would still be worked on, or hold its place in the mailbox."""
    handled: list[float] = []

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("sleeper", lambda: Sleeper(handled), mailbox=MailboxPolicy(2))
        async with system:
            ref.tell(5.0)
            await anyio.sleep(1.0)
            with anyio.move_on_after(1.0):
                async with anyio.create_task_group() as group:
                    for _ in range(5):  # two are queued, three wait for room
                        group.start_soon(lambda: ref.ask(0.5, timeout_s=None))
            ref.tell(0.1)
            ref.tell(0.2)
            assert await ref.ask(0.0, timeout_s=None) == 4

    run_virtual(scenario, seed=seed)
    assert handled == [5.0, 0.1, 0.2, 0.0]


def test_crash_fails_every_waiting_ask_at_once_and_names_the_actor() -> None:
    """Whoever waits on a dead actor would wait for its restart, or for ever."""

    async def scenario() -> None:
        system = ActorSystem()
        ref = system.spawn("sleeper", Sleeper, mailbox=MailboxPolicy(2))
        async with system:
            loop = asyncio.get_running_loop()
            failed_at: list[float] = []

            async def ask() -> None:
                with pytest.raises(ActorDied, match=r"actor 'sleeper' crashed: ValueError\('cannot sleep -1 s'\)"):
                    await ref.ask(0.0, timeout_s=100.0)
                failed_at.append(loop.time())

            ref.tell(1.0)
            await anyio.sleep(0.5)
            ref.tell(-1)
            async with anyio.create_task_group() as group:
                for _ in range(4):  # one is queued, three wait for room
                    group.start_soon(ask)
            assert failed_at == [1.0] * 4
            assert await ref.ask(0.0, timeout_s=1.0) == 1  # the next incarnation serves again

    for seed in range(20):
        run_virtual(scenario, seed=seed)


def test_stopped_actor_reports_dead_letters_and_fails_asks() -> None:
    """Late messages would vanish silently, or a tell at shutdown would raise in the sender."""
    events: list[RuntimeEvent] = []

    async def scenario() -> None:
        system = ActorSystem(observer=events.append)
        ref = system.spawn("sleeper", Sleeper)
        async with system:
            pass
        ref.tell(1.0)
        await ref.send(2.0)
        with pytest.raises(ActorDied, match="actor 'sleeper' was stopped"):
            await ref.ask(3.0, timeout_s=1.0)

    run_virtual(scenario)
    assert events == [DeadLetter("sleeper", "float")] * 2


class Relay(Actor[str]):
    """Pass a message on to the next and note the trace id that arrives."""

    def __init__(self, seen: list[tuple[str, str]], onward: ActorRef[str] | None) -> None:
        self.seen = seen
        self.onward = onward

    async def run(self, inbox: Mailbox[str]) -> None:
        while (envelope := await inbox.receive()) is not None:
            self.note(envelope)
            await self.handle(envelope)

    def note(self, envelope: Envelope[str]) -> None:
        self.seen.append((self.name, envelope.trace_id))

    async def receive(self, message: str) -> str:
        if self.onward is not None:
            self.onward.tell(message)
        return f"{self.name} {current_trace_id()}"


def test_trace_id_follows_a_message_through_actors() -> None:
    """What one request caused in several actors could not be told from what another caused."""
    seen: list[tuple[str, str]] = []

    async def scenario() -> None:
        system = ActorSystem()
        second = system.spawn("second", lambda: Relay(seen, None))
        first = system.spawn("first", lambda: Relay(seen, second))
        async with system:
            with tracing("request-7"):
                assert await first.ask("x", timeout_s=1.0) == "first request-7"
            assert current_trace_id() is None
            await first.ask("y", timeout_s=1.0)
            await second.ask("z", timeout_s=1.0)

    run_virtual(scenario)
    by_actor = {name: [trace_id for actor, trace_id in seen if actor == name] for name in ("first", "second")}
    given, fresh = by_actor["first"]
    assert given == "request-7" != fresh
    assert by_actor["second"][:2] == ["request-7", fresh]
    assert by_actor["second"][2] not in (fresh, "request-7")
