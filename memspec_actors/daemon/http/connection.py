"""A connection to the daemon: HTTP/1.1, and an end for the other side that stands still."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memspec_actors.daemon.http.request_parser import RequestParser

__all__ = ["Connection"]

HEAD_TIMEOUT_S = 10.0  # from connecting, or from a later request's first byte, to the end of its headers
MAX_HEAD_BYTES = 2**16
STALL_TIMEOUT_S = 60.0  # while so much waits to be sent that no more is taken


class Connection(HttpToolsProtocol):
    """Speak HTTP/1.1, one request at a time, and hang up on a client that sends half of one, or does not read.

    Such connections would add up until no other can be opened. That a body does not come is its reader's to notice.
    What is sent before a reply has ended is not read as another request: the connection ends with that reply.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser = RequestParser(self)
        self._head = _Deadline(self.loop, HEAD_TIMEOUT_S, self._hang_up)
        self._stall = _Deadline(self.loop, STALL_TIMEOUT_S, self._hang_up)
        self._num_head_bytes = 0
        self._ends = False  # with the reply at hand

    @property
    def _is_replying(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head.start()

    def data_received(self, data: bytes) -> None:
        if self._ends:
            return
        super().data_received(data)
        if self._is_replying:
            self._head.stop()
            self._num_head_bytes = 0
            return
        self._head.start()
        self._num_head_bytes += len(data)
        if self._num_head_bytes > MAX_HEAD_BYTES:
            self._hang_up()

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

    def on_headers_complete(self) -> None:
        if self._is_replying:
            self._ends, self.cycle.keep_alive = True, False
            return
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if not self._ends:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._ends and not self.parser.should_upgrade():  # else its body comes late
            super().on_message_complete()

    def on_late_body_complete(self) -> None:
        """End a body that came though the request offered an upgrade."""
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_replying and self.cycle.response_started:
            self._hang_up()  # there is no second reply within the first
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
