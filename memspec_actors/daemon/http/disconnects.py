"""Let go of work whose caller has gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

__all__ = ["unless_disconnected"]

T = TypeVar("T")


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns; cancel it and raise ClientDisconnect as soon as the client has gone.

    The body of the request must have been read: what ``receive`` gives after it is only the end of the connection.
    """
    connected = asyncio.timeout(None)
    try:
        async with connected:
            watching = asyncio.create_task(_watch(receive, connected))
            try:
                return await work
            finally:
                watching.cancel()
    except TimeoutError:
        if connected.expired():
            raise ClientDisconnect from None
        raise


async def _watch(receive: Receive, connected: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    connected.reschedule(asyncio.get_running_loop().time())
