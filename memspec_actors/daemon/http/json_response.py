"""Answer with a msgspec struct as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

__all__ = ["json_response"]

_encoder = msgspec.json.Encoder()


def json_response(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode a struct, or anything else that msgspec encodes."""
    return Response(_encoder.encode(value), status, dict(headers or {}), media_type="application/json")
