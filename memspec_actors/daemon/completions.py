"""``/v1/completions`` and ``/v1/chat/completions``."""

from collections.abc import AsyncGenerator
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from memspec_actors.daemon.generations import Generation
from memspec_actors.daemon.http.bodies import read_json
from memspec_actors.daemon.http.disconnects import unless_disconnected
from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.daemon.http.refusals import Refusal, refusal_of
from memspec_actors.daemon.http.server_sent import DONE, EventStream, Write, server_sent
from memspec_actors.daemon.logprobs import TokenTexts
from memspec_actors.daemon.options import max_new_tokens, param_of, prompt_of, sampling_of, scheduling_of
from memspec_actors.daemon.replies import ChatWording, CompletionWording, Wording
from memspec_actors.daemon.service import Service
from memspec_actors.errors import ConfigError, MemSpecError
from memspec_actors.protocols.http_replies import ErrorReply, Measured
from memspec_actors.protocols.http_requests import ChatCompletionRequest, CompletionRequest
from memspec_actors.protocols.results import TextChunk

__all__ = ["chat_completions", "completions"]

_encode = msgspec.json.encode


async def completions(request: Request) -> ASGIApp:
    """Complete a text."""
    return await _serve(request, CompletionRequest)


async def chat_completions(request: Request) -> ASGIApp:
    """Answer a chat."""
    return await _serve(request, ChatCompletionRequest)


async def _serve(request: Request, kind: type[CompletionRequest] | type[ChatCompletionRequest]) -> ASGIApp:
    service = Service.of(request)
    wanted = await read_json(request, kind, service.max_body_bytes)
    return await unless_disconnected(request.receive, _reply(service, wanted))


async def _reply(service: Service, wanted: CompletionRequest | ChatCompletionRequest) -> ASGIApp:
    """Return the whole reply, or a stream from the first chunk on: what fails before it fails with a status."""
    if wanted.stream_options is not None and not wanted.stream:
        raise Refusal(400, "stream_options: only a stream has them; set stream", param="stream_options")
    service.check_model(wanted.model)
    service.generations.admit()
    generation = await _begin(service, wanted)
    tokens = TokenTexts(service.engine.token_text)
    kind = CompletionWording if isinstance(wanted, CompletionRequest) else ChatWording
    wording: Wording = kind(generation.stream.request.request_id, service.model_name, tokens)
    chunks = generation.chunks()
    try:
        first = await anext(chunks, None)
        if wanted.stream and first is not None:
            usage = bool(wanted.stream_options and wanted.stream_options.include_usage)
            return EventStream(partial(_tell, generation, first, chunks, wording, usage), source=chunks)
        async for _ in chunks:
            pass
        return json_response(wording.whole(generation.result))
    except MemSpecError as error:
        raise refusal_of(error) from error


async def _begin(service: Service, wanted: CompletionRequest | ChatCompletionRequest) -> Generation:
    engine, prompt, scheduling = service.engine, prompt_of(wanted), scheduling_of(wanted)
    try:
        ids = await engine.encode_aside(prompt.content, raw=prompt.raw)
        stream = engine.stream(
            ids,
            max_new_tokens=max_new_tokens(wanted, engine.context),
            sampling=sampling_of(wanted),
            **scheduling.options,
        )
    except ConfigError as error:
        named = param_of(str(error), wanted, scheduling.field)  # a draft_model is a policy to the engine
        raise refusal_of(error, scheduling.field if named == "policy" else named) from error
    except MemSpecError as error:
        raise refusal_of(error, param_of(str(error), wanted, prompt.field)) from error
    return service.generations.open(stream)


async def _tell(
    generation: Generation,
    first: TextChunk,
    chunks: AsyncGenerator[TextChunk, None],
    wording: Wording,
    include_usage: bool,
    write: Write,
) -> bytes:
    """Write the stream's events, those together that are known together; return the last ones.

    An error that comes after the first chunk is an event itself, and ends the stream.
    """
    opening = wording.opening()
    known = b"" if opening is None else _event(opening)
    chunk: TextChunk | None = first
    try:
        while chunk is not None:
            if chunk.text or chunk.logprobs:
                known += _event(wording.delta(chunk))
            if known and not generation.stream.ended:
                await write(known)
                known = b""
            chunk = await anext(chunks, None)
        result = generation.result
    except (MemSpecError, Refusal) as error:
        refusal = error if isinstance(error, Refusal) else refusal_of(error)
        return known + _event(ErrorReply(error=refusal.body))
    usage = _event(wording.usage(result)) if include_usage else b""
    return known + _event(wording.closing(result)) + usage + DONE


def _event(data: Measured | ErrorReply) -> bytes:
    return server_sent(_encode(data))
