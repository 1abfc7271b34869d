"""The mailbox keeps order, bounds, and the newest of what is latest-wins."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.errors import MailboxFull
from memspec_actors.runtime import Envelope, Mailbox, MailboxPolicy
from memspec_actors.runtime.testing import run_virtual


@dataclass(frozen=True)
class Order:
    """A control message."""

    value: int


@dataclass(frozen=True)
class Reading:
    """A latest-wins message, one per sensor."""

    sensor: str
    value: int


CAPACITY = 3
POLICY = MailboxPolicy(CAPACITY, latest={Reading: lambda reading: reading.sensor})
Message = Order | Reading


def envelope(message: Message, reply: asyncio.Future[object] | None = None) -> Envelope[Message]:
    return Envelope(message, "trace", reply)


class ListModel:
    """What a mailbox should do, told with plain lists; ``waiting`` are the asks nobody has answered."""

    def __init__(self) -> None:
        self.queued: list[Envelope[Message]] = []
        self.waiting: list[Envelope[Message]] = []

    def put(self, item: Envelope[Message]) -> bool:
        if slot(item) is None:
            if sum(slot(other) is None for other in self.queued) == CAPACITY:
                return False
        else:
            self.queued = [other for other in self.queued if slot(other) != slot(item)]
        self.queued.append(item)
        return True

    def forget(self, item: Envelope[Message]) -> None:
        self.waiting.remove(item)
        if item in self.queued:
            self.queued.remove(item)


def slot(item: Envelope[Message]) -> str | None:
    """Return the sensor whose newest reading this is, None for a control message."""
    return item.message.sensor if isinstance(item.message, Reading) and item.reply is None else None


steps = st.lists(
    st.one_of(
        st.builds(Order, st.integers(0, 9)),
        st.builds(Reading, st.sampled_from("xyz"), st.integers(0, 9)),
        st.sampled_from(["ask", "take", "give up", "crash"]),
    ),
    max_size=40,
)


@given(steps)
def test_every_history_agrees_with_plain_lists(history: list[Message | str]) -> None:
    """A lost, doubled, reordered or stale message, or an ask that still waits after a crash, would be a difference."""

    async def replay() -> None:
        mailbox: Mailbox[Message] = Mailbox("m", POLICY)
        model, peak = ListModel(), 0
        for step in history:
            play(step, mailbox, model)
            peak = max(peak, len(model.queued))
            assert (len(mailbox), mailbox.peak) == (len(model.queued), peak)
        assert mailbox.close("was stopped") == model.queued

    asyncio.run(replay())


def play(step: Message | str, mailbox: Mailbox[Message], model: ListModel) -> None:
    if step == "take":
        assert mailbox.receive_nowait() is (model.queued.pop(0) if model.queued else None)
    elif step == "give up" and model.waiting:
        mailbox.withdraw(model.waiting[0])
        model.forget(model.waiting[0])
    elif step == "crash":
        mailbox.fail_asks(lambda: RuntimeError("died"))
        for item in list(model.waiting):
            assert item.reply is not None and str(item.reply.exception()) == "died"
            model.forget(item)
    elif step == "ask":
        asked = envelope(Reading("x", 0), asyncio.get_running_loop().create_future())
        mailbox.expect(asked)
        model.waiting.append(asked)
        assert taken(mailbox, asked) == model.put(asked)
    elif not isinstance(step, str):
        told = envelope(step)
        assert taken(mailbox, told) == model.put(told)


def taken(mailbox: Mailbox[Message], item: Envelope[Message]) -> bool:
    try:
        return mailbox.tell_nowait(item)
    except MailboxFull:
        return False


def test_send_waits_for_room_in_order() -> None:
    """Back-pressure would be lost, or senders would overtake each other."""

    async def scenario() -> list[Message]:
        mailbox: Mailbox[Message] = Mailbox("m", MailboxPolicy(1))
        senders = [asyncio.create_task(mailbox.send(envelope(Order(i)))) for i in range(4)]
        received = []
        for _ in senders:
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(mailbox) == 1
            item = mailbox.receive_nowait()
            assert item is not None
            received.append(item.message)
        assert all(await asyncio.gather(*senders))
        return received

    assert asyncio.run(scenario()) == [Order(i) for i in range(4)]


def test_full_mailbox_names_itself_and_the_message() -> None:
    """The sender could not tell which mailbox is full, or of what."""
    mailbox: Mailbox[Message] = Mailbox("loader", MailboxPolicy(1))
    mailbox.tell_nowait(envelope(Order(1)))
    with pytest.raises(MailboxFull, match=r"'loader' is full \(1 messages\), Order was not taken"):
        mailbox.tell_nowait(envelope(Order(2)))


def test_latest_wins_message_enters_a_full_mailbox() -> None:
    """A ranking could be refused because control messages wait, or could push one of them out."""
    mailbox: Mailbox[Message] = Mailbox("m", POLICY)
    for i in range(CAPACITY):
        mailbox.tell_nowait(envelope(Order(i)))
    for i in range(100):
        assert mailbox.tell_nowait(envelope(Reading("x", i)))
    received = [mailbox.receive_nowait() for _ in range(CAPACITY + 2)]
    assert [item and item.message for item in received] == [Order(0), Order(1), Order(2), Reading("x", 99), None]


def test_closing_wakes_receiver_and_senders() -> None:
    """Somebody would wait for ever at a mailbox that nobody serves any more."""

    async def scenario() -> None:
        empty: Mailbox[Message] = Mailbox("empty", POLICY)
        receiver = asyncio.create_task(empty.receive())
        full: Mailbox[Message] = Mailbox("full", MailboxPolicy(1))
        full.tell_nowait(envelope(Order(0)))
        senders = [asyncio.create_task(full.send(envelope(Order(i)))) for i in (1, 2, 3)]
        await asyncio.sleep(1)
        assert empty.close("was stopped") == []
        assert [item.message for item in full.close("was stopped")] == [Order(0)]
        assert await receiver is None
        assert await asyncio.gather(*senders) == [False, False, False]
        assert full.receive_nowait() is None and await full.receive() is None
        assert not full.tell_nowait(envelope(Order(4)))
        assert len(full) == len(empty) == 0

    run_virtual(scenario)


def test_cancelled_receiver_loses_nothing() -> None:
    """A message could vanish with a receiver that was cancelled just as it came."""

    async def scenario() -> None:
        mailbox: Mailbox[Message] = Mailbox("m", POLICY)
        receiver = asyncio.create_task(mailbox.receive())
        await asyncio.sleep(1)
        mailbox.tell_nowait(envelope(Order(7)))
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        item = mailbox.receive_nowait()
        assert item is not None and item.message == Order(7)

    for seed in range(20):
        run_virtual(scenario, seed=seed)


def test_capacity_below_one_is_refused() -> None:
    """A mailbox that takes nothing would block its senders for ever."""
    with pytest.raises(ValueError, match="capacity is 0; it must be at least 1"):
        MailboxPolicy(0)


def test_what_is_handled_beside_the_rest_does_not_queue_with_it() -> None:
    """An actor at work would keep waiting whom it could serve meanwhile, or hand its work a message meant for that."""
    mailbox: Mailbox[Message] = Mailbox("m", MailboxPolicy(1, POLICY.latest, beside=frozenset({Reading})))
    assert mailbox.beside is not None
    for message in (Reading("a", 1), Order(1), Reading("b", 2), Reading("a", 3)):
        assert mailbox.tell_nowait(envelope(message))
    assert len(mailbox) == 3
    assert [each.message for each in (mailbox.receive_nowait(), mailbox.beside.receive_nowait()) if each] == [
        Order(1),
        Reading("b", 2),
    ]
    assert mailbox.receive_nowait() is None
    assert [each.message for each in mailbox.close("ended")] == [Reading("a", 3)]
    assert not mailbox.tell_nowait(envelope(Reading("c", 4)))
    assert len(mailbox) == 0
    assert asyncio.run(mailbox.beside.receive()) is None


def test_what_is_handled_early_comes_in_its_turn_as_well() -> None:
    """Work that goes by what it reads between two steps would never read what was meant for it."""
    mailbox: Mailbox[Message] = Mailbox("m", MailboxPolicy(1, POLICY.latest, early=frozenset({Reading})))
    assert mailbox.beside is not None
    for message in (Reading("a", 1), Order(1), Reading("a", 2)):
        assert mailbox.tell_nowait(envelope(message))
    for queue, expected in ((mailbox.beside, [Reading("a", 2)]), (mailbox, [Order(1), Reading("a", 2)])):
        for each in expected:
            taken = queue.receive_nowait()
            assert taken is not None and taken.message == each
        assert queue.receive_nowait() is None
