"""Work for a caller who may go away."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from memspec_actors.daemon.http.disconnects import unless_disconnected

pytestmark = pytest.mark.anyio


class Client:
    """The other end of a request whose body has been read."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.num_watching = 0

    async def receive(self) -> dict[str, Any]:
        self.num_watching += 1
        try:
            await self.gone.wait()
        finally:
            self.num_watching -= 1
        return {"type": "http.disconnect"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Give a client whom nobody may watch any more after the test."""
    client = Client()
    yield client
    await asyncio.sleep(0)  # whoever watches has been told to end, and has to
    assert client.num_watching == 0


async def forever(ended: list[BaseException]) -> None:
    try:
        await asyncio.Event().wait()
    except BaseException as error:
        ended.append(error)
        raise


async def test_work_that_ends_gives_its_result(client: Client) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        assert client.num_watching == 1
        return "done"

    assert await unless_disconnected(client.receive, work()) == "done"


async def test_work_is_cancelled_as_soon_as_the_client_has_gone(client: Client) -> None:
    """It would be done for nobody."""
    ended: list[BaseException] = []
    asyncio.get_running_loop().call_soon(client.gone.set)
    with pytest.raises(ClientDisconnect):
        await unless_disconnected(client.receive, forever(ended))
    assert [type(error) for error in ended] == [asyncio.CancelledError]
    await asyncio.sleep(0)  # the caller itself goes on: it was not cancelled


async def test_a_client_who_goes_as_the_work_ends_changes_nothing(client: Client) -> None:
    """A cancellation that comes late would hit whatever the caller does next."""

    async def work() -> str:
        await asyncio.sleep(0)
        client.gone.set()
        await asyncio.sleep(0)
        return "done"

    assert await unless_disconnected(client.receive, work()) == "done"
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", [TimeoutError("its own"), ValueError("its own")])
async def test_an_error_of_the_work_is_its_callers(client: Client, error: Exception) -> None:
    """A deadline of the work's own would look like a client who has gone."""

    async def work() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(type(error), match="its own"):
        await unless_disconnected(client.receive, work())


async def test_a_cancellation_from_outside_stays_one(client: Client) -> None:
    """A daemon that stops would wait for its requests for ever."""
    ended: list[BaseException] = []
    task = asyncio.create_task(unless_disconnected(client.receive, forever(ended)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(ended) == 1
