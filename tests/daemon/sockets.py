"""An ASGI application behind the daemon's connections, on a real socket, and what a client does there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from memspec_actors.daemon.http.connection import Connection

__all__ = ["SERVED", "START", "Connect", "answer", "ended", "serving"]

START = {"type": "http.response.start", "status": 200, "headers": []}
SERVED = b"served\r\n0\r\n\r\n"  # how `answer` ends
PATIENCE_S = 30.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer any request, without a look at its body."""
    await send(START)
    await send({"type": "http.response.body", "body": b"served"})


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[Connect]:
    """Serve ``app``; give what connects to it."""
    config, state = uvicorn.Config(app, lifespan="off", log_config=None, proxy_headers=False), ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}, loop), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Streams:
        reader, writer = await asyncio.open_connection(host, port)
        opened.append(writer)
        return reader, writer

    async with server, asyncio.timeout(PATIENCE_S):
        try:
            yield connect
        finally:
            for writer in opened:
                writer.close()
            await asyncio.gather(*state.tasks)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the other side hangs up."""
    read = b""
    try:
        while piece := await reader.read(2**16):
            read += piece
    except ConnectionResetError:
        pass
    return read
