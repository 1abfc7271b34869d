"""``/drafts``: where the drafts stand, and what may be asked for them."""

from typing import cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.daemon.http.refusals import Refusal, refusal_of
from memspec_actors.daemon.service import Service
from memspec_actors.errors import InvalidRequest, MemSpecError
from memspec_actors.protocols.http_replies import DraftList, DraftStatus
from memspec_actors.protocols.messages import DraftWish
from memspec_actors.protocols.results import ResidencySnapshot

__all__ = ["drafts", "steer"]


async def drafts(request: Request) -> Response:
    """List the drafts."""
    engine = Service.of(request).engine
    now = engine.residency()
    listed = DraftList(
        data=tuple(_status(name, nbytes, now) for name, nbytes in engine.drafts.items()),
        capacity=now.capacity,
        budget_bytes=now.budget_bytes,
        resident_bytes=now.resident_bytes,
        reserved_bytes=now.reserved_bytes,
    )
    return json_response(listed)


async def steer(request: Request) -> Response:
    """Load, unload, pin or unpin a draft; answer with its status, which may still be ``loading``.

    An unload is answered when the draft's memory is free.
    """
    engine, name, wish = Service.of(request).engine, request.path_params["name"], request.path_params["wish"]
    if wish not in get_args(DraftWish):
        raise Refusal(
            404, f"a draft can be asked to {', '.join(get_args(DraftWish))}, not {wish!r}", code="no_such_wish"
        )
    if name not in engine.drafts:
        raise Refusal(404, f"there is no draft {name!r}; drafts are {', '.join(engine.drafts)}", code="no_such_draft")
    try:
        now = await engine.steer_draft(cast(DraftWish, wish), name)
    except InvalidRequest as error:
        raise Refusal(409, str(error), code="no_room") from error
    except MemSpecError as error:
        raise refusal_of(error) from error
    return json_response(_status(name, engine.drafts[name], now))


def _status(name: str, nbytes: int, now: ResidencySnapshot) -> DraftStatus:
    loaded, loading, failed = name in now.resident, name in now.loading, name in now.unavailable
    return DraftStatus(
        name=name,
        status="loaded" if loaded else "loading" if loading else "failed" if failed else "unloaded",
        active=name == now.active,
        pinned=name in now.pinned,
        nbytes=nbytes,
    )
