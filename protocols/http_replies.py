"""What the daemon gives over HTTP: OpenAI's replies, with fields of our own."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from memspec_actors.protocols.results import Metrics, Usage

__all__ = [
    "ChatChoice",
    "ChatChunk",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatLogprobs",
    "ChatTokenLogprob",
    "Completion",
    "CompletionChoice",
    "CompletionLogprobs",
    "Delta",
    "DraftList",
    "DraftStatus",
    "ErrorBody",
    "ErrorReply",
    "Health",
    "HttpFinishReason",
    "Measured",
    "Model",
    "ModelList",
    "ReplyMessage",
    "Timings",
    "TokenAlternative",
]

HttpFinishReason = Literal["stop", "length"]


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Give times as llama.cpp's server does: the prompt's encoding, then steady-state decoding."""

    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int
    draft_n_accepted: int


class TokenAlternative(msgspec.Struct, frozen=True, kw_only=True):
    """A token with its natural logarithm of probability; ``bytes`` are its UTF-8."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class ChatTokenLogprob(TokenAlternative, frozen=True, kw_only=True):
    top_logprobs: tuple[TokenAlternative, ...]


class ChatLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    content: tuple[ChatTokenLogprob, ...]


class CompletionLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Give one entry per token; ``text_offset`` counts characters from the start of the text."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: tuple[dict[str, float], ...]
    text_offset: tuple[int, ...]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Tell, in a whole reply or a stream's last chunk, what was measured and whether the text is the target's own."""

    id: str
    created: int
    model: str
    usage: Usage | UnsetType | None = UNSET
    metrics: Metrics | UnsetType = UNSET
    timings: Timings | UnsetType = UNSET
    lossless: bool | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    index: int = 0
    logprobs: CompletionLogprobs | None = None
    finish_reason: HttpFinishReason | None = None


class Completion(Measured, frozen=True, kw_only=True):
    """A whole completion, or one chunk of it."""

    choices: tuple[CompletionChoice, ...]
    object: Literal["text_completion"] = "text_completion"


class ReplyMessage(msgspec.Struct, frozen=True, kw_only=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    message: ReplyMessage
    finish_reason: HttpFinishReason
    index: int = 0
    logprobs: ChatLogprobs | None = None


class ChatCompletion(Measured, frozen=True, kw_only=True):
    choices: tuple[ChatChoice, ...]
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    delta: Delta
    index: int = 0
    logprobs: ChatLogprobs | None = None
    finish_reason: HttpFinishReason | None = None


class ChatChunk(Measured, frozen=True, kw_only=True):
    choices: tuple[ChatChunkChoice, ...]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["loading", "ok", "stopping"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "memspec"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[Model, ...]
    object: Literal["list"] = "list"


class DraftStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Tell where a draft stands; ``loaded`` may be used, ``failed`` is tried again after a while."""

    name: str
    status: Literal["unloaded", "loading", "loaded", "failed"]
    active: bool
    pinned: bool
    nbytes: int


class DraftList(msgspec.Struct, frozen=True, kw_only=True):
    """List all drafts, and how full their memory is."""

    data: tuple[DraftStatus, ...]
    capacity: int
    budget_bytes: int
    resident_bytes: int
    reserved_bytes: int
    object: Literal["list"] = "list"


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Say in one line what is wrong; ``param`` names the field."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorBody
