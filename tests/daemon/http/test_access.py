"""Who may talk to the daemon: if these fail, a web page or another machine reads what is served here."""

import json
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from memspec_actors.config import ServeConfig
from memspec_actors.daemon.http.access import AccessControl, check_exposure
from memspec_actors.errors import ConfigError

pytestmark = pytest.mark.anyio
KEY = "s3cret-ключ"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


async def ask(config: ServeConfig, path: str = "/v1/models", **headers: str | bytes) -> tuple[int, str | None]:
    """Return the status and the refusal's code."""
    transport = httpx2.ASGITransport(AccessControl(answer, config))
    given: Any = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        reply = await client.get(path, headers=given)
    return reply.status_code, None if reply.text == "served" else json.loads(reply.text)["error"]["code"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "my-box.lan"])
async def test_its_own_names_are_served(host: str) -> None:
    assert await ask(ServeConfig(allowed_hosts=("my-box.lan",)), host=host) == (200, None)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost."])
async def test_a_foreign_name_that_points_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser of somebody on this machine would read the daemon for a foreign page."""
    assert await ask(ServeConfig(), host=host) == (403, "host")
    assert await ask(ServeConfig(), "/health", host=host) == (403, "host"), "no path is left out"


async def test_two_names_are_none() -> None:
    """One of them would be looked at, and perhaps the other by somebody else on the way."""
    transport = httpx2.ASGITransport(AccessControl(answer, ServeConfig()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        reply = await client.get("/", headers=[("Host", "127.0.0.1"), ("Host", "evil.example")])
    assert reply.status_code == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("http://localhost:3000", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://127.0.0.1.evil.example", 403),
    ],
)
async def test_a_foreign_page_is_refused(origin: str, status: int) -> None:
    """A page may send a POST to any address without being able to read the answer: a load, an unload, a generation."""
    assert (await ask(ServeConfig(), host="127.0.0.1:8000", origin=origin))[0] == status


async def test_behind_a_key_all_interfaces_are_reached_under_any_name() -> None:
    config = ServeConfig(host="0.0.0.0", api_key="k")
    bearer = "Bearer k"
    assert await ask(config, host="box.lan:8000", authorization=bearer) == (200, None)
    own = await ask(config, host="box.lan:8000", origin="http://box.lan:8000", authorization=bearer)
    assert own == (200, None)
    foreign = await ask(config, host="box.lan:8000", origin="http://evil.example", authorization=bearer)
    assert foreign == (403, "origin")


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/completions", "/events", "/drafts", "/drafts/law/load", "/metrics"]
)
async def test_with_a_key_everything_that_tells_or_does_something_asks_for_it(path: str) -> None:
    config = ServeConfig(api_key=KEY)
    assert await ask(config, path) == (401, "invalid_api_key")
    for wrong in ("Bearer s3cret", f"Basic {KEY}", "Bearer ", KEY, f"Bearer {KEY}x"):
        assert await ask(config, path, authorization=wrong.encode()) == (401, "invalid_api_key"), wrong
    assert await ask(config, path, authorization=f"Bearer {KEY}".encode()) == (200, None)


@pytest.mark.parametrize("path", ["/", "/health", "/dashboard/main.js"])
async def test_the_page_and_the_health_need_no_key(path: str) -> None:
    """A load balancer has no key, and the page asks for it."""
    assert await ask(ServeConfig(api_key=KEY), path) == (200, None)


@pytest.mark.parametrize("key", ["s3cret-à", "s3cret-Å"])
async def test_a_key_may_end_in_any_letter(key: str) -> None:
    """The last bytes of these are spaces to Latin-1, in which headers are read: nobody's key would be the right one."""
    assert await ask(ServeConfig(api_key=key), authorization=f"Bearer {key} ".encode()) == (200, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.lan"])
def test_other_machines_are_not_let_in_without_a_key_unless_told_so(host: str) -> None:
    with pytest.raises(ConfigError, match="api_key"):
        check_exposure(ServeConfig(host=host), without_key=False)
    check_exposure(ServeConfig(host=host), without_key=True)
    check_exposure(ServeConfig(host=host, api_key="k"), without_key=False)
    check_exposure(ServeConfig(host=host, uds="/run/memspec.sock"), without_key=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_needs_no_key(host: str) -> None:
    check_exposure(ServeConfig(host=host), without_key=False)
