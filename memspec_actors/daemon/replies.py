"""Word a generation as OpenAI's API does: whole, or chunk by chunk."""

import time
from typing import Any, Protocol

from memspec_actors.daemon.logprobs import TokenTexts
from memspec_actors.protocols.http_replies import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    Completion,
    CompletionChoice,
    Delta,
    HttpFinishReason,
    Measured,
    ReplyMessage,
    Timings,
)
from memspec_actors.protocols.results import GenerationResult, TextChunk

__all__ = ["ChatWording", "CompletionWording", "Wording"]


class Wording(Protocol):
    """Word one reply; what was measured is in ``whole`` and in ``closing``."""

    def opening(self) -> Measured | None:
        """Return the chunk before the text, if there is one."""
        ...

    def delta(self, chunk: TextChunk) -> Measured:
        """Return the chunk that adds to the text."""
        ...

    def closing(self, result: GenerationResult) -> Measured:
        """Return the last chunk with a choice: why the text ended."""
        ...

    def usage(self, result: GenerationResult) -> Measured:
        """Return the chunk without a choice in which the usage goes, if it was asked for."""
        ...

    def whole(self, result: GenerationResult) -> Measured:
        """Return the reply in one piece."""
        ...


class CompletionWording:
    """Word ``/v1/completions``."""

    def __init__(self, request_id: str, model: str, tokens: TokenTexts) -> None:
        self._head = _head(f"cmpl-{request_id}", model)
        self._tokens = tokens
        self._num_characters = 0  # of the tokens told so far

    def opening(self) -> Completion | None:
        return None

    def delta(self, chunk: TextChunk) -> Completion:
        logprobs = None
        if chunk.logprobs is not None:
            logprobs, self._num_characters = self._tokens.completion(chunk.logprobs, self._num_characters)
        return Completion(**self._head, choices=(CompletionChoice(text=chunk.text, logprobs=logprobs),))

    def closing(self, result: GenerationResult) -> Completion:
        choice = CompletionChoice(text="", finish_reason=_finish_reason(result))
        return Completion(**self._head, **_measured(result), choices=(choice,))

    def usage(self, result: GenerationResult) -> Completion:
        return Completion(**self._head, usage=result.usage, choices=())

    def whole(self, result: GenerationResult) -> Completion:
        logprobs = None if result.logprobs is None else self._tokens.completion(result.logprobs, 0)[0]
        choice = CompletionChoice(text=result.text, logprobs=logprobs, finish_reason=_finish_reason(result))
        return Completion(**self._head, **_measured(result), usage=result.usage, choices=(choice,))


class ChatWording:
    """Word ``/v1/chat/completions``."""

    def __init__(self, request_id: str, model: str, tokens: TokenTexts) -> None:
        self._head = _head(f"chatcmpl-{request_id}", model)
        self._tokens = tokens

    def opening(self) -> ChatChunk:
        delta = Delta(role="assistant", content="")
        return ChatChunk(**self._head, choices=(ChatChunkChoice(delta=delta),))

    def delta(self, chunk: TextChunk) -> ChatChunk:
        logprobs = None if chunk.logprobs is None else self._tokens.chat(chunk.logprobs)
        choice = ChatChunkChoice(delta=Delta(content=chunk.text), logprobs=logprobs)
        return ChatChunk(**self._head, choices=(choice,))

    def closing(self, result: GenerationResult) -> ChatChunk:
        choice = ChatChunkChoice(delta=Delta(), finish_reason=_finish_reason(result))
        return ChatChunk(**self._head, **_measured(result), choices=(choice,))

    def usage(self, result: GenerationResult) -> ChatChunk:
        return ChatChunk(**self._head, usage=result.usage, choices=())

    def whole(self, result: GenerationResult) -> ChatCompletion:
        choice = ChatChoice(
            message=ReplyMessage(content=result.text),
            finish_reason=_finish_reason(result),
            logprobs=None if result.logprobs is None else self._tokens.chat(result.logprobs),
        )
        return ChatCompletion(**self._head, **_measured(result), usage=result.usage, choices=(choice,))


def _head(reply_id: str, model: str) -> dict[str, Any]:
    return {"id": reply_id, "model": model, "created": int(time.time())}


def _finish_reason(result: GenerationResult) -> HttpFinishReason:
    assert result.finish_reason != "cancelled", "a text that was cut short is told as an error"
    return result.finish_reason


def _measured(result: GenerationResult) -> dict[str, Any]:
    return {"metrics": result.metrics, "timings": _timings(result), "lossless": result.lossless}


def _timings(result: GenerationResult) -> Timings:
    usage, timing, drafts = result.usage, result.timing, result.metrics.speculative_decoding
    prompt_ms, predicted_ms = timing.prefill_s * 1e3, timing.decode_s * 1e3
    num_decoded = max(0, usage.completion_tokens - 1)  # the first token comes out of the prompt's encoding
    return Timings(
        prompt_n=usage.prompt_tokens,
        prompt_ms=prompt_ms,
        prompt_per_token_ms=_per(prompt_ms, usage.prompt_tokens),
        prompt_per_second=_per(usage.prompt_tokens * 1e3, prompt_ms),
        predicted_n=usage.completion_tokens,
        predicted_ms=predicted_ms,
        predicted_per_token_ms=_per(predicted_ms, num_decoded),
        predicted_per_second=_per(num_decoded * 1e3, predicted_ms),
        draft_n=drafts.num_draft_tokens,
        draft_n_accepted=drafts.num_accepted_draft_tokens,
    )


def _per(amount: float, of: float) -> float:
    return amount / of if of else 0.0
