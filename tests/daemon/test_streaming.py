"""When the events of a stream are written, with an engine that the tests play themselves."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message

from memspec_actors.config import Config
from memspec_actors.daemon.app import create_app
from memspec_actors.daemon.service import Service
from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.results import TextChunk
from memspec_actors.stream import TextStream

pytestmark = pytest.mark.anyio
PATIENCE_S = 30.0
ASKED = {"model": "memspec-zoo", "messages": [{"role": "user", "content": "x"}], "stream": True}


class Played:
    """An engine, its stream's too, that gives what a test tells it to give."""

    context = 100

    def __init__(self) -> None:
        myself: Any = self
        request: Any = SimpleNamespace(request_id="1")
        self.played = TextStream(myself, request)
        self.asked = asyncio.Event()

    async def encode_aside(self, prompt: object, *, raw: bool) -> tuple[int, ...]:
        return (1,)

    def stream(self, prompt: object, **options: object) -> TextStream:
        return self.played

    def token_text(self, token_id: int) -> str:
        return "a"

    def submit(self, stream: TextStream) -> None:
        self.asked.set()

    def leave(self, stream: TextStream) -> None: ...

    def give(self, *texts: str) -> None:
        for text in texts:
            self.played.chunk(TextChunk(text=text, token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0))

    def end(self) -> None:
        self.played.fail(InvalidLogits("no number"))


class Exchange:
    """A request for a stream, as a server hands it to an application."""

    def __init__(self, engine: Played) -> None:
        service = Service(Config())
        played: Any = engine
        service._engine = played
        self._app = create_app(service)
        self._asked = [json.dumps(ASKED).encode()]
        self._sent: asyncio.Queue[Message] = asyncio.Queue()

    async def run(self) -> None:
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
        await self._app(scope, self._receive, self._sent.put)

    async def _receive(self) -> Message:
        if not self._asked:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": self._asked.pop()}

    async def written(self) -> tuple[list[str], bool]:
        """Return the texts (an error is one) of the next piece of the body, and whether more are to come."""
        while (message := await self._sent.get())["type"] != "http.response.body":
            pass
        events = [json.loads(each.removeprefix("data: ")) for each in message["body"].decode().split("\n\n")[:-1]]
        texts = ["error" if "error" in each else each["choices"][0]["delta"].get("content") for each in events]
        return texts, message.get("more_body", False)


async def test_a_text_is_written_as_it_comes() -> None:
    """Whoever reads a stream would wait for the end of the text."""
    engine = Played()
    exchange = Exchange(engine)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(exchange.run())
        await engine.asked.wait()
        for text, before in (("a", [""]), ("b", []), ("c", [])):
            engine.give(text)
            assert await exchange.written() == ([*before, text], True)
        engine.end()
        assert await exchange.written() == (["error"], False)


@pytest.mark.parametrize("early", [0, 1])
async def test_what_is_known_when_a_text_ends_is_written_with_its_end(early: int) -> None:
    """Each piece on its own wakes the client, and keeps it from the end."""
    engine = Played()
    exchange = Exchange(engine)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(exchange.run())
        await engine.asked.wait()
        if early:
            engine.give("a")
            assert await exchange.written() == (["", "a"], True)
        engine.give("b", "c")
        engine.end()
        assert await exchange.written() == ([*([] if early else [""]), "b", "c", "error"], False)
