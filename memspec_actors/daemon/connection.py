"""A connection to the daemon: HTTP/1.1, and an end for the other side that stands still."""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

HEAD_TIMEOUT_S = 10.0  # from connecting, or from a later request's first byte, to the end of its headers
STALL_TIMEOUT_S = 60.0  # while so much waits to be sent that no more is taken


class Connection(H11Protocol):
    """Speak HTTP/1.1, and hang up on a client that sends half a request, or does not read what it asked for.

    Such connections would add up until no other can be opened. That a body does not come is its reader's to notice.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = _Deadline(self.loop, HEAD_TIMEOUT_S, self._hang_up)
        self._stall = _Deadline(self.loop, STALL_TIMEOUT_S, self._hang_up)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head.start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._head.start()
        else:
            self._head.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._stall.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.stop()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state is h11.SEND_BODY:
            self._hang_up()  # what is no HTTP comes after a request whose reply has begun: there is no second reply
        else:
            super().send_400_response(msg)

    def _hang_up(self) -> None:
        self.transport.abort()


class _Deadline:
    """Call once when it has been running for its time; starting it again changes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_s: float, call: Callable[[], None]) -> None:
        self._loop = loop
        self._after_s = after_s
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._after_s, self._call)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
