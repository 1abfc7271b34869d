"""The handle by which everybody else reaches an actor."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from memspec_actors.errors import ActorDied, AskTimeout
from memspec_actors.runtime.envelope import Envelope, current_trace_id, new_trace_id
from memspec_actors.runtime.events import DeadLetter
from memspec_actors.runtime.mailbox import Mailbox

__all__ = ["ActorRef"]

M = TypeVar("M", contravariant=True)


class ActorRef(Generic[M]):
    """Reach one actor by name, whichever incarnation of it is alive."""

    __slots__ = ("_mailbox", "_on_dead_letter", "name")

    def __init__(self, mailbox: Mailbox[M], on_dead_letter: Callable[[DeadLetter], None]) -> None:
        self.name = mailbox.name
        self._mailbox = mailbox
        self._on_dead_letter = on_dead_letter

    def __repr__(self) -> str:
        return f"ActorRef({self.name!r})"

    def tell(self, message: M) -> None:
        """Send and go on; a message to a stopped actor is reported as a dead letter. Raises MailboxFull."""
        if not self._mailbox.tell_nowait(self._envelope(message)):
            self._on_dead_letter(DeadLetter(self.name, type(message).__name__))

    async def send(self, message: M) -> None:
        """Send, wait while the mailbox is full; a message to a stopped actor is reported as a dead letter."""
        if not await self._mailbox.send(self._envelope(message)):
            self._on_dead_letter(DeadLetter(self.name, type(message).__name__))

    async def ask(self, message: M, *, timeout_s: float | None) -> Any:
        """Send and wait for the answer, at most ``timeout_s`` (None: as long as the actor lives), room included.

        An ask that is given up before it was delivered is never delivered. Raises AskTimeout, or ActorDied if the actor
        crashes or stops before it has answered.
        """
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        envelope = self._envelope(message, reply)
        self._mailbox.expect(envelope)
        try:
            async with asyncio.timeout(timeout_s):
                if not await self._mailbox.send(envelope) and not reply.done():
                    raise ActorDied(f"actor {self.name!r} {self._mailbox.closed_because}")
                return await reply
        except TimeoutError:
            what = type(message).__name__
            raise AskTimeout(f"actor {self.name!r} did not answer {what} within {timeout_s:g} s") from None
        finally:
            self._mailbox.withdraw(envelope)
            if reply.done() and not reply.cancelled():
                reply.exception()  # an asker that is cancelled at this very moment leaves no "never retrieved" behind

    def _envelope(self, message: M, reply: asyncio.Future[Any] | None = None) -> Envelope[Any]:
        return Envelope(message, current_trace_id() or new_trace_id(), reply)
