"""A stream of events as an ASGI server sees it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.types import Message

from memspec_actors.daemon.http.server_sent import EventStream, Write, server_sent

pytestmark = pytest.mark.anyio


class Source:
    """Something to read from, which remembers that it was closed."""

    def __init__(self) -> None:
        self.events = self._events()
        self.told: list[str] = []

    async def _events(self) -> AsyncGenerator[bytes, None]:
        try:
            for _ in range(1000):
                yield server_sent(b"1")
        finally:
            self.told.append("closed")

    def at_end(self) -> None:
        self.told.append("at end")


class Exchange:
    """What a server offers an application; the client goes away after ``num_messages`` of the reply."""

    def __init__(self, num_messages: int | None = None) -> None:
        self.sent: list[Message] = []
        self._num_messages = num_messages
        self._gone = asyncio.Event()

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if len(self.sent) == self._num_messages:
            self._gone.set()
        await asyncio.sleep(0)


async def test_what_ends_a_stream_ends_the_reply_with_it() -> None:
    """A reply that ends in a message of its own wakes the client once more, for nothing."""

    async def tell(write: Write) -> bytes:
        await write(await anext(source.events))
        return b"data: last\n\n"

    source, exchange = Source(), Exchange()
    scope: dict[str, Any] = {"type": "http"}
    await EventStream(tell, source=source.events, at_end=source.at_end)(scope, exchange.receive, exchange.send)
    start, *bodies = exchange.sent
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert [(each["body"], each.get("more_body", False)) for each in bodies] == [
        (b"data: 1\n\n", True),
        (b"data: last\n\n", False),
    ]
    assert source.told == ["closed", "at end"]


@pytest.mark.parametrize("num_messages", [1, 3])
async def test_when_the_client_goes_the_source_is_closed(num_messages: int) -> None:
    """Decoding would go on for nobody, and a place among those who follow the events would be lost."""

    async def tell(write: Write) -> bytes:
        async for event in source.events:
            await write(event)
        return b""

    source, exchange = Source(), Exchange(num_messages)
    scope: dict[str, Any] = {"type": "http"}
    await EventStream(tell, source=source.events, at_end=source.at_end)(scope, exchange.receive, exchange.send)
    assert source.told[-1] == "at end"
    assert len(exchange.sent) <= num_messages + 3
    with pytest.raises(StopAsyncIteration):
        await anext(source.events)


async def test_an_error_closes_the_source_too() -> None:
    async def tell(write: Write) -> bytes:
        await write(await anext(source.events))
        raise ValueError("a bug")

    source, exchange = Source(), Exchange()
    scope: dict[str, Any] = {"type": "http"}
    with pytest.raises(ValueError, match="a bug"):
        await EventStream(tell, source=source.events, at_end=source.at_end)(scope, exchange.receive, exchange.send)
    assert source.told == ["closed", "at end"]


async def test_a_second_cancellation_does_not_keep_a_reader_in_the_count() -> None:
    """Whoever left while the source was still closing would hold a place among those who follow the events for good."""

    async def slow_to_close() -> AsyncGenerator[bytes, None]:
        try:
            yield b""
        finally:
            closing.set()
            await asyncio.Event().wait()

    async def tell(write: Write) -> bytes:
        await anext(events)
        reading.set()
        return await asyncio.Future[bytes]()

    reading, closing, ended = asyncio.Event(), asyncio.Event(), list[str]()
    events, exchange = slow_to_close(), Exchange()
    stream = EventStream(tell, source=events, at_end=lambda: ended.append("at end"))
    serving = asyncio.ensure_future(stream({"type": "http"}, exchange.receive, exchange.send))
    await reading.wait()
    serving.cancel()
    await closing.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert ended == ["at end"]
