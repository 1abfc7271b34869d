"""The queue and its deadlines, with streams whose chunks the tests send themselves."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from memspec_actors.config import ServeConfig
from memspec_actors.daemon.generations import Generation, Generations
from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.errors import EngineClosed
from memspec_actors.protocols.results import TextChunk
from memspec_actors.stream import TextStream

pytestmark = pytest.mark.anyio


class Engine:
    """What streams talk to: it remembers which were submitted, cancelled and left."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def submit(self, stream: TextStream) -> None:
        self.told.append("submit")

    def cancel(self, stream: TextStream) -> None:
        self.told.append("cancel")

    def leave(self, stream: TextStream) -> None:
        self.told.append("leave")


def stream_of(engine: Engine) -> TextStream:
    anything: Any = engine
    return TextStream(anything, anything)


def chunk(text: str) -> TextChunk:
    return TextChunk(text=text, token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0)


def generation(config: ServeConfig) -> tuple[Generation, Engine, Generations]:
    engine, generations = Engine(), Generations(config)
    return generations.open(stream_of(engine)), engine, generations


async def test_a_full_queue_refuses_and_a_place_that_is_given_up_is_free() -> None:
    """Requests would pile up without bound, or the daemon would refuse for ever."""
    generations = Generations(ServeConfig(queue=2))
    streams = [stream_of(Engine()) for _ in range(3)]
    for stream in streams:
        generations.open(stream)  # one runs, two wait
    with pytest.raises(Refusal) as caught:
        generations.admit()
    assert caught.value.status_code == 429
    assert (caught.value.headers or {})["Retry-After"]
    streams[0].fail(EngineClosed("over"))  # the engine has ended it; its caller may read on as slowly as it likes
    generations.admit()
    assert generations.num_open == 2


async def test_no_place_is_given_while_draining() -> None:
    generations = Generations(ServeConfig())
    generations.draining = True
    with pytest.raises(Refusal) as caught:
        generations.admit()
    assert caught.value.status_code == 503


async def test_a_request_that_waits_too_long_is_told_to_come_again() -> None:
    """It would hold a connection for ever; and leaving it in the engine's queue would waste a whole generation."""
    waiting, engine, generations = generation(ServeConfig(queue_timeout_s=0.01))
    with pytest.raises(Refusal) as caught:
        await anext(waiting.chunks())
    assert (caught.value.status_code, caught.value.body.code) == (503, "queue_timeout")
    assert (caught.value.headers or {})["Retry-After"]
    assert engine.told == ["submit", "leave"]
    assert generations.num_open == 0


async def test_a_request_that_takes_too_long_is_ended() -> None:
    running, engine, _ = generation(ServeConfig(queue_timeout_s=1e6, request_timeout_s=0.01))
    running.stream.chunk(chunk("a"))
    chunks = running.chunks()
    assert (await anext(chunks)).text == "a"
    with pytest.raises(Refusal) as caught:
        await anext(chunks)
    assert (caught.value.status_code, caught.value.body.code) == (504, "request_timeout")
    assert engine.told == ["submit", "leave"]


async def test_a_request_whose_turn_has_come_has_no_place_in_the_queue_to_lose() -> None:
    """Its text would be cut short by a deadline that it had met."""
    running, engine, _ = generation(ServeConfig(queue_timeout_s=0.01, request_timeout_s=1e6))
    running.stream.chunk(chunk("a"))
    chunks = running.chunks()
    await anext(chunks)
    asyncio.get_running_loop().call_later(0.03, running.stream.chunk, chunk("b"))
    assert (await anext(chunks)).text == "b"
    assert engine.told == ["submit"]
    await chunks.aclose()


async def test_what_has_ended_is_not_kept_until_its_deadline() -> None:
    """A busy daemon would hold the texts of the last ten minutes."""
    running, _, _ = generation(ServeConfig(queue_timeout_s=1e6, request_timeout_s=1e6))
    running.stream.chunk(chunk("a"))
    chunks = running.chunks()
    await anext(chunks)
    await chunks.aclose()
    kept = weakref.ref(running)
    del running, chunks
    gc.collect()
    assert kept() is None


async def test_closing_the_chunks_leaves_the_engine_at_once() -> None:
    """A client that has gone would be decoded for until its text ends."""
    running, engine, generations = generation(ServeConfig())
    running.stream.chunk(chunk("a"))
    chunks = running.chunks()
    await anext(chunks)
    await chunks.aclose()
    assert engine.told == ["submit", "leave"]
    assert generations.num_open == 0


async def test_cancelling_all_reaches_every_open_stream() -> None:
    running, engine, generations = generation(ServeConfig())
    running.stream.chunk(chunk("a"))
    chunks = running.chunks()
    await anext(chunks)
    generations.cancel_all()
    assert engine.told == ["submit", "cancel"]
    await chunks.aclose()
