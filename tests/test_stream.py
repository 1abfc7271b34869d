"""When the reader of a stream gets what, in virtual time, with a Decoder that the tests play themselves."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.results import TextChunk
from memspec_actors.runtime.held import HOLD_S
from memspec_actors.runtime.testing import run_virtual
from memspec_actors.stream import TextStream

LONG_S = 10.0


class Engine:
    """What streams talk to: it takes every request."""

    def submit(self, stream: TextStream) -> None: ...

    def leave(self, stream: TextStream) -> None: ...


class Reading:
    """A stream that is being read, and what its reader got at what time since it began."""

    def __init__(self) -> None:
        anything: Any = Engine()
        self.stream = TextStream(anything, anything)
        self.got: list[tuple[float, str]] = []

    async def read(self) -> None:
        began = anyio.current_time()
        try:
            async for chunk in self.stream:
                self.got.append((anyio.current_time() - began, chunk.text))
            self.got.append((anyio.current_time() - began, "result"))
        except InvalidLogits:
            self.got.append((anyio.current_time() - began, "error"))


def chunk(text: str) -> TextChunk:
    return TextChunk(text=text, token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0)


def read(decode: Callable[[TextStream], Awaitable[None]]) -> list[tuple[float, str]]:
    """Let ``decode`` play the Decoder; return what the reader got."""
    reading = Reading()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading.read)
            await decode(reading.stream)

    run_virtual(main)
    return reading.got


def finish(stream: TextStream) -> None:
    result: Any = object()
    stream.finish(result)


def test_a_chunk_comes_when_the_next_iteration_is_under_way() -> None:
    """Its reader would take Python's lock from the decoding thread, at every iteration's beginning."""

    async def decode(stream: TextStream) -> None:
        for text in ("a", "b"):
            stream.chunk(chunk(text))
            await anyio.sleep(LONG_S)
        finish(stream)

    times, texts = zip(*read(decode), strict=True)
    assert texts == ("a", "b", "result")
    assert times == pytest.approx((HOLD_S, LONG_S + HOLD_S, 2 * LONG_S))


def test_chunks_of_short_iterations_come_together_and_in_order() -> None:
    async def decode(stream: TextStream) -> None:
        for text in "abcd":
            stream.chunk(chunk(text))
            await anyio.sleep(0.4 * HOLD_S)
        await anyio.sleep(LONG_S)
        finish(stream)

    times, texts = zip(*read(decode), strict=True)
    assert texts == ("a", "b", "c", "d", "result")
    assert times[:4] == pytest.approx((HOLD_S,) * 3 + (2.2 * HOLD_S,))


@pytest.mark.parametrize("end", ["result", "error"])
def test_the_end_comes_at_once_behind_what_is_held(end: str) -> None:
    """The last piece of a text would be late, or come after its end and be lost."""

    async def decode(stream: TextStream) -> None:
        stream.chunk(chunk("a"))
        if end == "result":
            finish(stream)
        else:
            stream.fail(InvalidLogits("no number"))
        await anyio.sleep(LONG_S)

    assert read(decode) == [(0.0, "a"), (0.0, end)]


def test_who_breaks_off_gets_what_has_come_by_then() -> None:
    async def decode(stream: TextStream) -> None:
        stream.chunk(chunk("a"))
        stream.break_off(InvalidLogits("no number"))
        stream.chunk(chunk("b"))
        await anyio.sleep(LONG_S)

    assert read(decode) == [(0.0, "a"), (0.0, "error")]
