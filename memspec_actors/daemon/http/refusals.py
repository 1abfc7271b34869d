"""Requests that are refused, as OpenAI's error objects; nothing of the inside shows in them."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.errors import (
    ActorError,
    DeviceFull,
    EngineClosed,
    InvalidLogits,
    MemSpecError,
    Overloaded,
    UsageError,
)
from memspec_actors.protocols.http_replies import ErrorBody, ErrorReply

__all__ = ["Refusal", "refusal_of", "respond_to_refusal", "respond_to_unexpected"]

RETRY_AFTER_S = 1
MAX_MESSAGE = 1000  # characters: it may repeat a path or a header, which may be as long as a client likes
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Refusal(HTTPException):
    """Refuse a request with a status, a one-line message and, for bad input, the field it is about."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else None
        if status == 401:
            headers = {"WWW-Authenticate": "Bearer"}
        line = " ".join(message.split())
        super().__init__(status, line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]} ...", headers)
        default = "server_error" if status >= 500 else "invalid_request_error"
        self.body = ErrorBody(message=self.detail, type=_TYPES.get(status, default), param=param, code=code)


def refusal_of(error: MemSpecError, param: str | None = None) -> Refusal:
    """Say what an engine's error means to a caller; ``param`` is the field that a bad request is put down to."""
    match error:
        case UsageError():
            return Refusal(400, str(error), param=param)
        case Overloaded():
            return Refusal(429, str(error), code="queue_full")
        case DeviceFull():
            return Refusal(503, str(error), code="device_full")
        case EngineClosed():
            return Refusal(503, "the daemon is stopping; try again later", code="stopping")
        case ActorError():
            return Refusal(503, "the engine failed while it served this request; try again", code="engine_failed")
        case InvalidLogits():
            return Refusal(500, f"the model cannot go on with this text: {error}", code="invalid_logits")
        case _:
            return Refusal(500, "the engine could not go on with this request; see the event log", code="engine_error")


async def respond_to_refusal(request: Request, error: Exception) -> Response:
    """Answer with an error object; the framework's own refusals (no such path, wrong method) become one too."""
    assert isinstance(error, HTTPException)
    refusal = error if isinstance(error, Refusal) else Refusal(error.status_code, error.detail)
    headers = {**(error.headers or {}), **(refusal.headers or {})}
    return json_response(ErrorReply(error=refusal.body), status=refusal.status_code, headers=headers)


async def respond_to_unexpected(request: Request, error: Exception) -> Response:
    """Answer what should not have happened; the traceback goes to the daemon's own log."""
    body = ErrorBody(message="the daemon failed unexpectedly", type="server_error", code="internal_error")
    return json_response(ErrorReply(error=body), status=500)
