"""The base of all actors."""

from typing import Generic, TypeVar

from anyio.abc import TaskGroup

from memspec_actors.runtime.envelope import Envelope, tracing
from memspec_actors.runtime.mailbox import Mailbox

__all__ = ["Actor"]

M = TypeVar("M")


class Actor(Generic[M]):
    """Handle messages one at a time; any exception kills this instance, and a fresh one takes over its mailbox.

    The supervisor sets ``name`` and ``tasks`` before it calls ``started``. ``tasks`` is a task group of the actor's own
    for work beside its messages: it is cancelled when the actor stops or crashes, and an exception in it is a crash.
    ``crash`` is what the actor died of, set before ``stopped`` is called; None if it was stopped.
    """

    name: str
    tasks: TaskGroup
    crash: Exception | None = None

    async def started(self) -> None:
        """Prepare; messages come only afterwards."""

    async def receive(self, message: M) -> object:
        """Handle one message; what is returned answers an ask."""
        raise NotImplementedError

    async def stopped(self) -> None:
        """Release what this instance holds, after a stop and after a crash (even one in ``started``) alike."""

    async def run(self, inbox: Mailbox[M]) -> None:
        """Handle the messages as they come, until the inbox is closed.

        An actor with work of its own overrides this: it polls ``inbox.receive_nowait()``, passes what it gets to
        ``handle``, and returns soon after ``inbox.closed``. To return earlier is a crash.
        """
        while (envelope := await inbox.receive()) is not None:
            await self.handle(envelope)

    async def handle(self, envelope: Envelope[M]) -> None:
        """Pass one envelope to ``receive`` under its trace id, and answer it if it is an ask."""
        with tracing(envelope.trace_id):
            answer = await self.receive(envelope.message)
        envelope.answer(answer)
