"""Replies to requests whose body is still on its way, over real sockets."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from memspec_actors.config import Config
from memspec_actors.daemon.app import create_app
from memspec_actors.daemon.http.unread_bodies import UnreadBodies
from memspec_actors.daemon.service import Service
from tests.daemon.sockets import SERVED, START, answer, ended, serving

pytestmark = pytest.mark.anyio


async def sent_whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, size: int) -> bytes:
    """Send all of a body, and only then read."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    writer.write(head.encode())
    for _ in range(0, size, 10_000):
        writer.write(b"x" * 10_000)
        await writer.drain()
    return await ended(reader)


@pytest.mark.parametrize("size", [100_000, 30_000_000])
async def test_a_client_that_is_still_sending_reads_its_refusal(size: int) -> None:
    """It would see a reset connection in place of the reason."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "status": 413})
        await send({"type": "http.response.body", "body": b"too large"})

    async with serving(UnreadBodies(refuse)) as connect:
        told = await sent_whole(*await connect(), "/", size)
        assert told.startswith(b"HTTP/1.1 413")
        assert b"too large" in told


async def test_a_client_that_is_still_sending_reads_that_the_daemon_failed() -> None:
    service = Service(Config())
    no_engine: Any = object()
    service._engine = no_engine
    async with serving(create_app(service)) as connect:
        told = await sent_whole(*await connect(), "/drafts/law/load", 30_000_000)
        assert told.startswith(b"HTTP/1.1 500")
        assert b"internal_error" in told


async def test_a_short_body_that_nobody_reads_does_not_cost_the_connection() -> None:
    async with serving(UnreadBodies(answer)) as connect:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            assert b"close" not in await reader.readuntil(SERVED)
