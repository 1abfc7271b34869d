"""Server-sent events: what a stream looks like on the wire."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

__all__ = ["DONE", "EventStream", "server_sent"]

DONE = b"data: [DONE]\n\n"  # how OpenAI's streams end


def server_sent(data: bytes, id: int | None = None) -> bytes:  # noqa: A002 - the protocol's own word
    """Return one event; ``data`` is one line."""
    head = b"" if id is None else b"id: %d\n" % id
    return head + b"data: " + data + b"\n\n"


class EventStream(StreamingResponse):
    """Send events as they come; they and their ``source`` are closed at once when the client goes, then ``at_end``.

    The source too, since a generator that was never begun has nothing of its own to close.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        source: AsyncGenerator[Any, None],
        at_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events = events
        self._source = source
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()
            await self._source.aclose()
            if self._at_end is not None:
                self._at_end()
