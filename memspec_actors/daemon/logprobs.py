"""Word log-probabilities as OpenAI's API does: by the tokens' text."""

from collections.abc import Callable, Sequence
from typing import Any

from memspec_actors.protocols.http_replies import ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TokenAlternative
from memspec_actors.protocols.results import TokenLogprob

__all__ = ["TokenTexts"]


class TokenTexts:
    """Name tokens by their text, which ``text_of`` gives; a token that is part of a character shows as U+FFFD."""

    def __init__(self, text_of: Callable[[int], str]) -> None:
        self._text_of = text_of

    def completion(self, logprobs: Sequence[TokenLogprob], offset: int) -> tuple[CompletionLogprobs, int]:
        """Return the object for tokens that start ``offset`` characters into the text, and where the next starts."""
        texts = tuple(self._text_of(each.token_id) for each in logprobs)
        offsets = []
        for text in texts:
            offsets.append(offset)
            offset += len(text)
        worded = CompletionLogprobs(
            tokens=texts,
            token_logprobs=tuple(each.logprob for each in logprobs),
            top_logprobs=tuple({self._text_of(token): value for token, value in each.top} for each in logprobs),
            text_offset=tuple(offsets),
        )
        return worded, offset

    def chat(self, logprobs: Sequence[TokenLogprob]) -> ChatLogprobs:
        return ChatLogprobs(
            content=tuple(
                ChatTokenLogprob(
                    **self._fields(each.token_id, each.logprob),
                    top_logprobs=tuple(TokenAlternative(**self._fields(*alternative)) for alternative in each.top),
                )
                for each in logprobs
            )
        )

    def _fields(self, token_id: int, logprob: float) -> dict[str, Any]:
        text = self._text_of(token_id)
        return {"token": text, "logprob": logprob, "bytes": tuple(text.encode())}
