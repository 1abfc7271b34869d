"""The daemon before its models are loaded, and when something goes wrong inside."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from memspec_actors.config import Config, ServeConfig
from memspec_actors.daemon.app import create_app
from memspec_actors.daemon.http import unread_bodies
from memspec_actors.daemon.http.refusals import refusal_of
from memspec_actors.daemon.service import MAX_EVENT_READERS, Service
from memspec_actors.errors import DeviceFull, InvalidLogits
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.prompts import PromptEncoder
from memspec_actors.protocols.results import TextChunk
from memspec_actors.stream import TextStream

pytestmark = pytest.mark.anyio
COMPLETION = {"model": "memspec-zoo", "prompt": "x"}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    yield Service(Config(serve=ServeConfig(max_body="1KB")))


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(service), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


class BrokenTokenizer:
    """A tokenizer with a bug; it remembers on which threads it was asked."""

    chat_template = None

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def encode(self, text: str) -> list[int]:
        self.threads.append(threading.current_thread())
        raise RuntimeError("a bug in /secret/path.py")


class BrokenEngine:
    """An engine that gets no further than a prompt."""

    context = 100
    drafts: dict[str, int] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.tokenizer = BrokenTokenizer()
        self.encode_aside = PromptEncoder(cast(Tokenizer, self.tokenizer), num_ids=1).encode_aside


class BrokenModel:
    """An engine whose model gives ``num_good`` chunks, then no number any more; it is its streams' engine, too."""

    context = 100
    drafts: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, num_good: int) -> None:
        self.num_good = num_good

    async def encode_aside(self, prompt: str, *, raw: bool) -> tuple[int, ...]:
        return (1,)

    def stream(self, prompt: tuple[int, ...], **options: object) -> TextStream:
        myself: Any = self
        request: Any = SimpleNamespace(request_id="1")
        return TextStream(myself, request)

    def token_text(self, token_id: int) -> str:
        return "a"

    def submit(self, stream: TextStream) -> None:
        for _ in range(self.num_good):
            stream.chunk(TextChunk(text="a", token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0))
        stream.fail(InvalidLogits("the target's largest logits are [nan]; check the checkpoint"))

    def leave(self, stream: TextStream) -> None: ...


async def test_while_models_load_health_says_so_and_requests_are_to_come_again(client: httpx2.AsyncClient) -> None:
    """A balancer would send requests that fail, or a client would give up for good."""
    health = await client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "loading"})
    for reply in (await client.post("/v1/completions", json=COMPLETION), await client.get("/drafts")):
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "loading")
        assert reply.headers["retry-after"]
    assert (await client.get("/v1/models")).status_code == 200


async def test_a_model_whose_name_is_a_path_is_found_by_it() -> None:
    """Models of the hub are called org/name; clients ask for them with the slash as it is, or escaped."""
    transport = httpx2.ASGITransport(create_app(Service(Config(serve=ServeConfig(model_name="org/name")))))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in ("org/name", "org%2Fname"):
            assert (await client.get(f"/v1/models/{path}")).json()["id"] == "org/name"
        assert (await client.get("/v1/models/org/other")).json()["error"]["code"] == "model_not_found"


async def test_a_bug_shows_no_more_than_that_there_is_one(service: Service, client: httpx2.AsyncClient) -> None:
    broken: Any = BrokenEngine()
    service._engine = broken
    reply = await client.post("/v1/completions", json=COMPLETION)
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in reply.text
    assert "bug" not in reply.text
    assert service.generations.num_open == 0


@pytest.mark.parametrize(("stream", "num_good"), [(False, 1), (True, 0), (True, 1)])
async def test_a_model_that_gives_no_numbers_says_so_in_one_line(
    service: Service, client: httpx2.AsyncClient, stream: bool, num_good: int
) -> None:
    """Whoever serves a damaged checkpoint would look for the reason in an event log that may not be written."""
    broken: Any = BrokenModel(num_good)
    service._engine = broken
    reply = await client.post("/v1/completions", json={**COMPLETION, "stream": stream})
    streams = stream and num_good > 0  # what fails before the first chunk fails with a status
    assert reply.status_code == (200 if streams else 500)
    told = json.loads(reply.text.split("data: ")[-1] if streams else reply.text)["error"]
    assert told["code"] == "invalid_logits"
    assert told["message"].endswith("logits are [nan]; check the checkpoint")


async def test_a_long_prompt_is_encoded_beside_the_event_loop(service: Service, client: httpx2.AsyncClient) -> None:
    """A megabyte takes the tokenizer more than a second, in which no other stream would go on."""
    service.max_body_bytes = 2**20
    broken: Any = BrokenEngine()
    service._engine = broken
    for prompt in ("short", "long " * 1000):
        await client.post("/v1/completions", json={**COMPLETION, "prompt": prompt})
    short, long = broken.tokenizer.threads
    assert short is threading.current_thread()
    assert long is not threading.current_thread()


async def test_a_body_without_end_is_refused(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be read, and kept in memory, for as long as it comes."""
    monkeypatch.setattr(unread_bodies, "DRAIN_TIMEOUT_S", 0.01)

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 500
            await asyncio.sleep(0)

    reply = await client.post("/v1/completions", content=body())
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")
    assert reply.headers["connection"] == "close"


async def test_as_many_read_the_events_as_it_can_bear(service: Service, client: httpx2.AsyncClient) -> None:
    """Every one of them gets every event: enough of them would bring decoding to a stand."""
    replies = [asyncio.create_task(client.get("/events")) for _ in range(MAX_EVENT_READERS + 1)]
    (refused,), reading = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
    assert (refused.result().status_code, refused.result().json()["error"]["code"]) == (503, "too_many")
    assert refused.result().headers["retry-after"]
    assert service.num_event_readers == MAX_EVENT_READERS
    service.drain()
    assert {(await each).status_code for each in reading} == {200}
    assert service.num_event_readers == 0


async def test_asking_for_the_events_head_alone_has_an_end(client: httpx2.AsyncClient) -> None:
    reply = await client.head("/events")
    assert (reply.status_code, reply.text) == (200, "")
    assert reply.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/completions", 405), ("PUT", "/drafts", 405), ("GET", "/v1/nothing", 404)],
)
async def test_a_wrong_method_or_path_is_an_error_object(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    reply = await client.request(method, path)
    assert reply.status_code == status
    assert reply.json()["error"]["type"]


async def test_a_refusal_repeats_no_more_than_a_line(client: httpx2.AsyncClient) -> None:
    """A header or a path may have 64 kB, and whatever repeats it has as many."""
    reply = await client.get("/events", headers={"Last-Event-ID": "x" * 20_000})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("Last-Event-ID is 'xxx")
    assert len(reply.content) < 1200


def test_a_device_that_is_full_says_so() -> None:
    """A text that is too long for a GPU would look like a fault of the daemon."""
    refusal = refusal_of(DeviceFull("cuda:0 has no room for 9 MB more"))
    assert (refusal.status_code, refusal.body.code) == (503, "device_full")
    assert "cuda:0 has no room" in refusal.body.message
