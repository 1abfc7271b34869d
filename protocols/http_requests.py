"""What the daemon takes over HTTP: OpenAI's requests, with fields of our own.

Requests are decoded strictly: a field that is unknown, of another type or out of range is refused by its name. Null
stands for a field's default, as in OpenAI's API.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

__all__ = [
    "MAX_NAME_LENGTH",
    "ChatCompletionRequest",
    "ChatMessage",
    "CompletionRequest",
    "GenerationFields",
    "StreamOptions",
    "TextPart",
]

MAX_NAME_LENGTH = 200  # characters
Name = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
TokenCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
StopString = Annotated[str, Meta(min_length=1, max_length=1000)]
StopStrings = Annotated[tuple[StopString, ...], Meta(max_length=16)]
NumLogprobs = Annotated[int, Meta(ge=0, le=20)]


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
