"""A bounded mailbox in which some messages replace their predecessors and all others are never dropped."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from memspec_actors.errors import MailboxFull
from memspec_actors.runtime.envelope import Envelope

__all__ = ["Mailbox", "MailboxPolicy"]

M = TypeVar("M")
T = TypeVar("T")


@dataclass(frozen=True)
class MailboxPolicy:
    """Say how many control messages fit, and which types are latest-wins.

    ``latest`` maps a message type (the exact class) to its key function: of such messages only the newest per key is
    queued, and they take no place from others. Everything else, and every ask, is control: never dropped; when
    ``capacity`` of them are queued, tell raises MailboxFull and send waits. Tells of the types in ``beside`` do not
    queue with the rest: the actor handles them as they come, even during work of its own. Those of the types in
    ``early`` it handles twice: as they come, and in their turn. Raises ValueError for a capacity below 1.
    """

    capacity: int = 64
    latest: Mapping[type, Callable[[Any], Hashable]] = field(default_factory=dict)
    beside: frozenset[type] = frozenset()
    early: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"mailbox capacity is {self.capacity}; it must be at least 1")


class _KeyedQueue(asyncio.Queue[tuple[Hashable, T]], Generic[T]):
    """Keep one entry per key; putting a key anew moves it to the tail."""

    def _init(self, maxsize: int) -> None:
        self._queue: OrderedDict[Hashable, T] = OrderedDict()

    def _put(self, item: tuple[Hashable, T]) -> None:
        key, value = item
        self._queue.pop(key, None)
        self._queue[key] = value

    def _get(self) -> tuple[Hashable, T]:
        return self._queue.popitem(last=False)

    def discard(self, key: Hashable) -> bool:
        return self._queue.pop(key, None) is not None


class Mailbox(Generic[M]):
    """Queue envelopes for one actor, across its restarts.

    What is received is always in the order in which it was sent: a newer latest-wins message takes its place at the
    tail and its predecessor vanishes. Not thread-safe: other threads go through ``loop.call_soon_threadsafe``.
    """

    def __init__(self, name: str, policy: MailboxPolicy) -> None:
        self.name = name
        self.closed_because: str | None = None
        self._capacity = policy.capacity
        self._latest = policy.latest
        self._beside_types, self._early_types = policy.beside, policy.early
        # What is handled beside the rest has a queue of the same kind to itself.
        alone = replace(policy, beside=frozenset(), early=frozenset())
        self.beside: Mailbox[M] | None = Mailbox(name, alone) if policy.beside or policy.early else None
        self.peak = 0  # the most messages that were ever queued
        self._num_control = 0
        # The queue has no maxsize of its own since only control messages count; ``_room`` is set while one more fits.
        self._queue = _KeyedQueue[Envelope[M] | None]()
        self._room = asyncio.Event()
        self._room.set()
        self._unanswered: set[Envelope[M]] = set()

    def __len__(self) -> int:
        num_beside = 0 if self.beside is None else len(self.beside)
        return 0 if self.closed else self._queue.qsize() + num_beside

    @property
    def closed(self) -> bool:
        """Tell whether the actor was asked to stop: nothing is taken or delivered any more."""
        return self.closed_because is not None

    def tell_nowait(self, envelope: Envelope[M]) -> bool:
        """Queue an envelope; return False if the mailbox is closed. Raises MailboxFull."""
        if self.closed_because is not None:
            return False
        if self.beside is not None and envelope.reply is None:
            if type(envelope.message) in self._beside_types:
                return self.beside.tell_nowait(envelope)
            if type(envelope.message) in self._early_types:
                self.beside.tell_nowait(envelope)
        key_of = self._latest.get(type(envelope.message))
        if key_of is not None and envelope.reply is None:
            self._put((type(envelope.message), key_of(envelope.message)), envelope)
            return True
        if self._num_control == self._capacity:
            raise MailboxFull(
                f"mailbox of {self.name!r} is full ({self._capacity} messages), "
                f"{type(envelope.message).__name__} was not taken; send it again later"
            )
        self._num_control += 1
        if self._num_control == self._capacity:
            self._room.clear()
        self._put(envelope, envelope)
        return True

    async def send(self, envelope: Envelope[M]) -> bool:
        """Queue an envelope, wait while the mailbox is full; return False if it is closed or the ask already failed."""
        while True:
            if envelope.reply is not None and envelope.reply.done():
                return False
            try:
                return self.tell_nowait(envelope)
            except MailboxFull:
                await self._room.wait()

    def receive_nowait(self) -> Envelope[M] | None:
        """Take the next envelope; return None if there is none."""
        if self.closed or self._queue.empty():
            return None
        return self._taken(*self._queue.get_nowait())

    async def receive(self) -> Envelope[M] | None:
        """Wait for the next envelope; return None once the mailbox is closed."""
        if self.closed:
            return None
        return self._taken(*await self._queue.get())

    def expect(self, envelope: Envelope[M]) -> None:
        """Remember that somebody waits for the answer to this envelope, until it is withdrawn."""
        self._unanswered.add(envelope)

    def withdraw(self, envelope: Envelope[M]) -> None:
        """Forget an ask that was answered, failed, or given up; it is not delivered any more."""
        self._unanswered.discard(envelope)
        if self._queue.discard(envelope):
            self._leave()

    def fail_asks(self, make_error: Callable[[], Exception]) -> None:
        """Fail everybody who waits for an answer: queued, being handled, or still waiting for room."""
        for envelope in list(self._unanswered):
            envelope.fail(make_error())
            self.withdraw(envelope)
        if not self._room.is_set():  # let those who wait for room see that their ask has failed
            self._room.set()
            self._room.clear()

    def close(self, reason: str) -> list[Envelope[M]]:
        """Take and deliver nothing more; return what was queued. ``reason`` continues "actor 'x' ..."."""
        if self.closed:
            return []
        drained: list[Envelope[M]] = []
        while (envelope := self.receive_nowait()) is not None:
            drained.append(envelope)
        if self.beside is not None:
            drained += self.beside.close(reason)
        self.closed_because = reason  # senders that wait for room find it now: what filled the mailbox is drained
        self._queue.put_nowait((None, None))  # wakes the receiver
        return drained

    def _put(self, key: Hashable, envelope: Envelope[M]) -> None:
        self._queue.put_nowait((key, envelope))
        self.peak = max(self.peak, self._queue.qsize())

    def _taken(self, key: Hashable, envelope: Envelope[M] | None) -> Envelope[M] | None:
        if key is envelope and envelope is not None:
            self._leave()
        return envelope

    def _leave(self) -> None:
        self._num_control -= 1
        self._room.set()
