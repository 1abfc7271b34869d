"""The API's description at ``/openapi.json``, drawn up from the types that requests are decoded with."""

from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memspec_actors import __version__
from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.protocols.http_replies import (
    ChatCompletion,
    Completion,
    DraftList,
    DraftStatus,
    ErrorReply,
    Health,
    Model,
    ModelList,
)
from memspec_actors.protocols.http_requests import ChatCompletionRequest, CompletionRequest
from memspec_actors.protocols.messages import DraftWish

__all__ = ["openapi"]

REFERENCE = "#/components/schemas/{name}"


class _Operation(NamedTuple):
    """One thing that the API does; a ``reply`` in text has no type but its media type."""

    method: str
    path: str
    summary: str
    reply: type | str
    request: type | None = None
    refusals: tuple[int, ...] = ()
    streams: bool = False


GENERATES = (400, 404, 408, 413, 429, 503, 504)
OPERATIONS = (
    _Operation("get", "/health", "Say whether requests are served.", Health, refusals=(503,)),
    _Operation("get", "/v1/models", "List the model that is served.", ModelList),
    _Operation("get", "/v1/models/{name}", "Describe the model that is served.", Model, refusals=(404,)),
    _Operation("post", "/v1/completions", "Complete a text.", Completion, CompletionRequest, GENERATES, streams=True),
    _Operation(
        "post", "/v1/chat/completions", "Answer a chat.", ChatCompletion, ChatCompletionRequest, GENERATES, streams=True
    ),
    _Operation("get", "/drafts", "List the drafts and where they stand.", DraftList, refusals=(503,)),
    _Operation(
        "post", "/drafts/{name}/{wish}", "Load, unload, pin or unpin a draft.", DraftStatus, refusals=(404, 409, 503)
    ),
    _Operation("get", "/events", "Follow the event log.", "text/event-stream", refusals=(400, 503)),
    _Operation("get", "/metrics", "Give metrics in Prometheus' format.", "text/plain"),
)


async def openapi(request: Request) -> Response:
    """Describe the API."""
    return json_response(_document())


@cache
def _document() -> dict[str, Any]:
    kinds = {ErrorReply, *(each for o in OPERATIONS for each in (o.request, o.reply) if isinstance(each, type))}
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "memspec", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _described(operation: _Operation) -> dict[str, Any]:
    media = _media(operation.reply)
    if operation.streams:
        media |= _media("text/event-stream")
    responses = {"200": {"description": "Done.", "content": media}}
    for status in (401, 403, *operation.refusals):
        reply = operation.reply if operation.reply is Health else ErrorReply
        responses[str(status)] = {"description": "Refused.", "content": _media(reply)}
    described: dict[str, Any] = {"summary": operation.summary, "responses": responses}
    described["parameters"] = [_parameter(name) for name in ("name", "wish") if f"{{{name}}}" in operation.path]
    if operation.request is not None:
        described["requestBody"] = {"required": True, "content": _media(operation.request)}
    return described


def _media(kind: type | str) -> dict[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def _parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = (
        {"type": "string", "enum": list(get_args(DraftWish))} if name == "wish" else {"type": "string"}
    )
    return {"name": name, "in": "path", "required": True, "schema": schema}
