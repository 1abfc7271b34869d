"""Read a request's body within its limits, and decode it strictly."""

import asyncio
import re
from typing import TypeVar

import msgspec
from starlette.requests import Request

from memspec_actors.daemon.http.refusals import Refusal

__all__ = ["read_json"]

BODY_TIMEOUT_S = 30.0
MAX_COMPLAINT = 500  # characters: a field's name may be as long as the body
T = TypeVar("T", bound=msgspec.Struct)
_AT = re.compile(r"(?P<complaint>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<path>.*?)(?:\[\.\.\.\])?`)?", re.DOTALL)
_FIELD = re.compile(r"field `(?P<name>[^`]*)`")


async def read_json(request: Request, kind: type[T], max_bytes: int) -> T:
    """Return the body as ``kind``. Raises Refusal: 413 for a body over ``max_bytes``, 400 naming the field."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            body = await _read(request, max_bytes)
    except TimeoutError as error:
        raise Refusal(408, f"the body did not come within {BODY_TIMEOUT_S:g} s", code="body_timeout") from error
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is not valid JSON: {error}", code="invalid_json") from error
    except RecursionError as error:
        raise Refusal(400, "the body is nested too deep", code="invalid_json") from error


async def _read(request: Request, max_bytes: int) -> bytes:
    too_large = Refusal(413, f"the body is larger than {max_bytes} bytes; send less", code="body_too_large")
    if int(request.headers.get("content-length", 0)) > max_bytes:
        raise too_large  # before a client that asks whether to go on is told so
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise too_large
    return bytes(body)


def _refusal(message: str) -> Refusal:
    """Turn msgspec's ``Expected `int` <= 64 - at `$.num_draft_tokens` `` into a refusal of that field.

    Of a mapping it says ``at `key` in `$.logit_bias` `` or ``at `$.logit_bias[...]` ``.
    """
    at = _AT.fullmatch(message[:MAX_COMPLAINT])
    assert at is not None, message
    complaint, path = at["complaint"].replace("`", "'"), at["path"]
    named = _FIELD.search(at["complaint"])
    param = ".".join(part for part in (path, named["name"] if named else None) if part)
    where = f"{param}, a key: " if at["key"] else f"{param}: " if param else ""
    return Refusal(400, where + complaint, param=param or None, code="invalid_value")
