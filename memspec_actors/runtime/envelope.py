"""What travels through a mailbox: a message, the trace id of what it was sent for, and the answer it may want."""

import asyncio
import itertools
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Envelope", "current_trace_id", "new_trace_id", "tracing"]

M = TypeVar("M")

_ids = itertools.count(1)
_trace_id: ContextVar[str | None] = ContextVar("trace_id", default=None)


@dataclass(slots=True, eq=False)
class Envelope(Generic[M]):
    """Carry one message; ``reply`` is the future of an ask, None for a tell."""

    message: M
    trace_id: str
    reply: asyncio.Future[Any] | None = None

    def answer(self, value: object) -> None:
        """Answer an ask; without effect on a tell, or if nobody waits any more."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(value)

    def fail(self, error: Exception) -> None:
        """Make an ask raise; without effect on a tell, or if nobody waits any more."""
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)


def new_trace_id() -> str:
    """Draw a trace id, unique in this process."""
    return f"{next(_ids):08x}"


def current_trace_id() -> str | None:
    """Return the trace id of the message being handled, None outside of any."""
    return _trace_id.get()


class tracing:  # noqa: N801 - a context manager reads as a verb
    """Give what is sent inside the block this trace id: ``with tracing(envelope.trace_id): ...``."""

    __slots__ = ("_token", "_trace_id")

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id

    def __enter__(self) -> None:
        self._token: Token[str | None] = _trace_id.set(self._trace_id)

    def __exit__(self, *exc_info: object) -> None:
        _trace_id.reset(self._token)
