"""``/metrics`` and ``/events``."""

from collections.abc import AsyncGenerator
from functools import partial

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.daemon.http.server_sent import MEDIA_TYPE, EventStream, Write, server_sent
from memspec_actors.daemon.service import Service

__all__ = ["events", "metrics"]

KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": still here\n\n"


async def metrics(request: Request) -> Response:
    """Give the metrics in Prometheus' text format."""
    try:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
    except (IndexError, TypeError, ValueError):  # a version that is no number, a parameter without a value
        encode, content_type = choose_encoder("")
    return Response(encode(Service.of(request).metrics.registry), media_type=content_type)


async def events(request: Request) -> ASGIApp:
    """Stream the event log as it is written; with Last-Event-ID from there on, as far as it is kept."""
    service = Service.of(request)
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)  # the stream itself would never end
    given = request.headers.get("last-event-id", "")
    if given and not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Refusal(400, f"Last-Event-ID is {given!r}; it must be the id of an event", param="Last-Event-ID")
    service.admit_event_reader()
    following = service.feed.follow(int(given) if given else service.feed.newest, KEEP_ALIVE_S)
    return EventStream(partial(_tell, following), source=following, at_end=service.event_reader_left)


async def _tell(following: AsyncGenerator[tuple[tuple[int, bytes], ...], None], write: Write) -> bytes:
    await write(KEEP_ALIVE)  # so that the client knows at once that it is connected
    async for batch in following:
        await write(b"".join(server_sent(data, number) for number, data in batch) or KEEP_ALIVE)
    return b""
