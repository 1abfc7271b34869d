"""Connections whose other end stands still, over real sockets: they would add up until no other can be opened."""

import asyncio

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from memspec_actors.daemon.http import connection
from tests.daemon.sockets import SERVED, START, answer, ended, serving

pytestmark = pytest.mark.anyio
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def answering_with_body(bodies: list[bytes]) -> ASGIApp:
    """Answer when the whole body has been read into ``bodies``."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            bodies.append(message["body"])
            if not message["more_body"]:
                break
        await answer(scope, receive, send)

    return app


@pytest.mark.parametrize(("is_first", "told"), [(True, b""), (True, b"GET / HT"), (True, GET[:-2]), (False, b"GET /")])
async def test_half_a_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, is_first: bool, told: bytes) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.02)
    async with serving(answer) as connect:
        reader, writer = await connect()
        if not is_first:
            writer.write(GET)
            await reader.readuntil(SERVED)
        writer.write(told)
        assert await ended(reader) == b""


@pytest.mark.parametrize("is_first", [True, False])
async def test_headers_without_end_are_not_kept(is_first: bool) -> None:
    """One client could fill the memory."""
    async with serving(answer) as connect:
        reader, writer = await connect()
        if not is_first:
            writer.write(GET)
            await reader.readuntil(SERVED)
        writer.write(GET[:-2])
        for _ in range(100):
            writer.write(b"X: " + b"x" * 1000 + b"\r\n")
        assert await ended(reader) == b""


async def test_what_comes_before_a_reply_has_ended_is_no_request() -> None:
    """Its body would be taken for the first one's, or that the client has gone would be told to the wrong reply."""
    bodies: list[bytes] = []
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
    async with serving(answering_with_body(bodies)) as connect:
        reader, writer = await connect()
        writer.write(post + b"mine" + post + b"more" + GET)
        assert (await ended(reader)).count(b"served") == 1
    assert b"".join(bodies) == b"mine"


@pytest.mark.parametrize("framing", [b"Content-Length: 4", b"Transfer-Encoding: chunked", b""])
@pytest.mark.parametrize("size", [1, 1000])
async def test_the_body_of_a_request_that_offers_an_upgrade_is_read(framing: bytes, size: int) -> None:
    """Java's HTTP client offers HTTP/2 with each POST; its body would be lost, or taken for another request."""
    bodies: list[bytes] = []
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEA\r\n"
    body = b"" if not framing else b"4\r\nmine\r\n0\r\n\r\n" if b"chunked" in framing else b"mine"
    post = b"POST / HTTP/1.1\r\nHost: localhost\r\n" + offer + framing + b"\r\n" * bool(framing) + b"\r\n" + body
    async with serving(answering_with_body(bodies)) as connect:
        reader, writer = await connect()
        for start in range(0, len(post), size):
            writer.write(post[start : start + size])
            await asyncio.sleep(0)
        told = await ended(reader)
    assert told.startswith(b"HTTP/1.1 200 ") and told.endswith(SERVED)
    assert b"".join(bodies) == (b"mine" if framing else b"")


async def test_a_client_that_goes_after_a_second_request_is_noticed() -> None:
    """The first would be decoded to its end for nobody."""
    begun, gone = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with serving(wait_for_the_end) as connect:
        _, writer = await connect()
        writer.write(GET + GET)
        await begun.wait()
        writer.close()
        await gone.wait()


async def test_bytes_that_trickle_in_are_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would buy more time, and a handful of senders all connections there are."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.05)
    async with serving(answer) as connect:
        reader, writer = await connect()

        async def trickle() -> None:
            writer.write(GET[:-2] + b"X: ")
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        assert await ended(reader) == b""
        trickling.cancel()


async def test_a_reply_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole text would be cut off while it is being decoded."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.02)

    async def answer_late(scope: Scope, receive: Receive, send: Send) -> None:
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.06, late.set)
        await late.wait()
        await answer(scope, receive, send)

    async with serving(answer_late) as connect:
        reader, writer = await connect()
        writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert b"served" in await ended(reader)


async def test_a_client_that_does_not_read_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its generation would never be let go of."""
    monkeypatch.setattr(connection, "STALL_TIMEOUT_S", 0.02)
    gone = asyncio.Event()

    async def flood(send: Send) -> None:
        await send(START)
        while True:
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
            await asyncio.sleep(0)

    async def answer_without_end(scope: Scope, receive: Receive, send: Send) -> None:
        flooding = asyncio.create_task(flood(send))
        while (await receive())["type"] != "http.disconnect":
            pass
        flooding.cancel()
        gone.set()

    async with serving(answer_without_end) as connect:
        _, writer = await connect()
        writer.write(GET)
        await gone.wait()


async def test_no_http_after_a_reply_has_begun_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Two replies would be mixed; and with every such client a traceback would be written."""
    gone = asyncio.Event()

    async def answer_without_end(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with serving(answer_without_end) as connect:
        reader, writer = await connect()
        writer.write(GET.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"))
        await reader.readuntil(b"begun")
        writer.write(b"no length\r\n")
        assert b"400" not in await ended(reader)
        await gone.wait()
    assert "Traceback" not in caplog.text
