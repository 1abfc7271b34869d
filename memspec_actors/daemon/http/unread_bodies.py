"""Let a client read its reply though it is still sending a body that nobody reads."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["UnreadBodies"]

DRAIN_TIMEOUT_S = 10.0
SOON_READ = 2**16  # a body that says that it has no more bytes is not worth a new connection


class UnreadBodies:
    """Send a reply at once, then read the rest of the body, for a bounded time, before the reply is over.

    A refusal may come before the body has. A connection that is closed on bytes on their way is reset, and the client
    may lose the reply that it has already been sent. Where the rest may be long the connection ends with the reply.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (num_bytes := _declared_bytes(scope)) != 0:
            exchange = _Exchange(receive, send, may_be_long=num_bytes is None or num_bytes > SOON_READ)
            await self._app(scope, exchange.receive, exchange.send)
        else:
            await self._app(scope, receive, send)


class _Exchange:
    """One request with a body, and its reply."""

    def __init__(self, receive: Receive, send: Send, *, may_be_long: bool) -> None:
        self._receive = receive
        self._send = send
        self._may_be_long = may_be_long
        self._read = False

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body"):
            self._read = True  # it is over, or the client has gone
        return message

    async def send(self, message: Message) -> None:
        if not self._read:
            if message["type"] == "http.response.start" and self._may_be_long:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                await self._send({**message, "more_body": True})
                await self._read_on()
                message = {"type": "http.response.body"}
        await self._send(message)

    async def _read_on(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                while not self._read:
                    await self.receive()
        except TimeoutError:
            pass


def _declared_bytes(scope: Scope) -> int | None:
    """Return how long the body says it is, 0 if there is none, None if it does not say."""
    headers = Headers(scope=scope)
    if "transfer-encoding" in headers:
        return None
    return int(headers.get("content-length", 0))
