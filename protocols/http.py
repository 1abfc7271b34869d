"""What the daemon takes and gives over HTTP: OpenAI's completions and chat completions, with fields of our own.

Requests are decoded strictly: a field that is unknown, of another type or out of range is refused by its name. Null
stands for a field's default, as in OpenAI's API.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from memspec_actors.protocols.results import Metrics, Usage

__all__ = [
    "ChatChoice",
    "ChatChunk",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatCompletionRequest",
    "ChatLogprobs",
    "ChatMessage",
    "ChatTokenLogprob",
    "Completion",
    "CompletionChoice",
    "CompletionLogprobs",
    "CompletionRequest",
    "Delta",
    "DraftList",
    "DraftStatus",
    "ErrorBody",
    "ErrorReply",
    "GenerationFields",
    "Health",
    "HttpFinishReason",
    "Measured",
    "Model",
    "ModelList",
    "ReplyMessage",
    "StreamOptions",
    "TextPart",
    "Timings",
    "TokenAlternative",
]

Name = Annotated[str, Meta(max_length=200)]
TokenCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
StopString = Annotated[str, Meta(min_length=1, max_length=1000)]
StopStrings = Annotated[tuple[StopString, ...], Meta(max_length=16)]
NumLogprobs = Annotated[int, Meta(ge=0, le=20)]
HttpFinishReason = Literal["stop", "length"]


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for one more chunk with the usage before the stream ends."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class GenerationFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hold what both kinds of request have in common; fields of one allowed value are there to be refused by name.

    ``draft_model`` null decodes with the target alone, a name pins that draft; ``num_draft_tokens`` is the draft
    length. ``user`` is taken and ignored.
    """

    model: Name
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenCount | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=100.0)] | None = None
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    stop: StopString | StopStrings | None = None
    stop_token_ids: Annotated[tuple[TokenId, ...], Meta(max_length=1000)] | None = None
    ignore_eos: bool | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100.0)] | None = None
    logit_bias: dict[TokenId, Annotated[float, Meta(ge=-100.0, le=100.0)]] | None = None
    n: Literal[1] | None = None
    user: str | None = None
    policy: Name | None = None
    method: Name | None = None
    draft_model: Name | UnsetType | None = UNSET
    num_draft_tokens: Annotated[int, Meta(ge=0, le=64)] | None = None


class CompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """``POST /v1/completions``: the prompt is one text, or one list of token ids, taken as it is."""

    prompt: str | tuple[str | TokenId | tuple[TokenId, ...], ...]
    logprobs: NumLogprobs | None = None
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None
    suffix: None = None


class TextPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a chat. A reply may be sent back as it came, with its fields that say nothing."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[TextPart, ...]
    name: str | None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None
    tool_calls: None = None

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatCompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """``POST /v1/chat/completions``: the messages go through the target's chat template."""

    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1, max_length=2048)]
    max_completion_tokens: TokenCount | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None


# --- replies ----------------------------------------------------------------------------------------------------------


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
