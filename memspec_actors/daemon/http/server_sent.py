"""Server-sent events: what a stream looks like on the wire."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from memspec_actors.daemon.http.disconnects import unless_disconnected

__all__ = ["DONE", "MEDIA_TYPE", "EventStream", "Write", "server_sent"]

DONE = b"data: [DONE]\n\n"  # how OpenAI's streams end
MEDIA_TYPE = "text/event-stream; charset=utf-8"
_HEADERS = ((b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))

Write = Callable[[bytes], Awaitable[None]]


def server_sent(data: bytes, id: int | None = None) -> bytes:  # noqa: A002 - the protocol's own word
    """Return one event; ``data`` is one line."""
    head = b"" if id is None else b"id: %d\n" % id
    return head + b"data: " + data + b"\n\n"


class EventStream:
    """Answer with events as they come: ``tell`` writes them, and returns those that end the stream.

    When the client goes, ``tell`` is cancelled at once. ``source``, which it reads from, is closed in any case, then
    ``at_end`` is called.
    """

    def __init__(
        self,
        tell: Callable[[Write], Awaitable[bytes]],
        source: AsyncGenerator[Any, None],
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._tell = tell
        self._source = source
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientDisconnect):
                await unless_disconnected(receive, self._answer(send))
        finally:
            try:
                await self._source.aclose()
            finally:  # a second cancellation ends a close that takes its time
                if self._at_end is not None:
                    self._at_end()

    async def _answer(self, send: Send) -> None:
        async def write(events: bytes) -> None:
            await send({"type": "http.response.body", "body": events, "more_body": True})

        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        last = await self._tell(write)
        await send({"type": "http.response.body", "body": last})
