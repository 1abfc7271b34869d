"""Let go of work whose caller has gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

__all__ = ["unless_disconnected"]

T = TypeVar("T")


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns; cancel it and raise ClientDisconnect as soon as the client has gone.

    The body of the request must have been read: what comes after it is only the end of the connection.
    """
    working, watching = asyncio.ensure_future(work), asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
