"""What a prompt may be, and the token ids that the target sees for it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import anyio.to_thread

from memspec_actors.errors import InvalidRequest
from memspec_actors.models.text.tokenizer import Tokenizer

__all__ = ["Messages", "Prompt", "PromptEncoder"]

Messages = Sequence[Mapping[str, str]]
Prompt = str | Messages | Sequence[int]

LONG_CHARS = 4096  # about 6 ms of encoding
MESSAGE_CHARS = 16  # what the chat template puts around a message costs as much


class PromptEncoder:
    """Turn text, chat messages or token ids into token ids below ``num_ids``."""

    def __init__(self, tokenizer: Tokenizer, num_ids: int) -> None:
        self._tokenizer = tokenizer
        self._num_ids = num_ids

    def encode(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return the token ids of a prompt as the target sees it. Raises InvalidRequest for one that cannot be used."""
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview):
            raise InvalidRequest(f"the prompt is a {type(prompt).__name__}; give text, chat messages, or token ids")
        if not isinstance(prompt, str) and all(issubclass(kind, int) for kind in set(map(type, prompt))):
            ids = cast(tuple[int, ...], tuple(prompt))
        elif isinstance(prompt, str) and (raw or self._tokenizer.chat_template is None):
            ids = tuple(self._tokenizer.encode(_whole(prompt)))
        elif isinstance(prompt, str):
            ids = tuple(self._tokenizer.encode(self.chat_prompt(_whole(prompt)), add_special_tokens=False))
        else:
            ids = tuple(self._tokenizer.encode(_whole(self.chat_prompt(prompt)), add_special_tokens=False))
        if not ids:
            raise InvalidRequest("the prompt is empty; give at least one token")
        if not 0 <= min(ids) <= max(ids) < self._num_ids:
            unknown = next(each for each in ids if not 0 <= each < self._num_ids)
            raise InvalidRequest(f"the prompt has token ids outside 0 to {self._num_ids - 1}, such as {unknown}")
        return ids

    async def encode_aside(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return `encode` of a prompt, from a worker thread if it is so long that it would hold up the event loop.

        Short ones keep the order in which they come: a thread would not.
        """
        if _is_long(prompt):
            return await anyio.to_thread.run_sync(partial(self.encode, prompt, raw=raw))
        return self.encode(prompt, raw=raw)

    def chat_prompt(self, prompt: Prompt) -> str:
        """Return the text that the target sees for a plain prompt or chat messages: wrapped by its chat template."""
        if isinstance(prompt, str):
            return self._tokenizer.apply_chat_template([{"role": "user", "content": prompt}])
        messages = [each for each in prompt if isinstance(each, Mapping)]
        if len(messages) != len(prompt):
            raise InvalidRequest("a prompt is text, chat messages, or token ids")
        return self._tokenizer.apply_chat_template(messages)


def _is_long(prompt: Prompt) -> bool:
    """Tell whether encoding a prompt takes long; what is none is refused soon."""
    if isinstance(prompt, str) or not isinstance(prompt, Sequence):
        return isinstance(prompt, str) and len(prompt) >= LONG_CHARS
    return len(prompt) >= LONG_CHARS or sum(map(_num_chars, prompt)) >= LONG_CHARS


def _num_chars(part: Mapping[str, str] | int | str) -> int:
    """Return how long the text is that costs as much as a token id or a message."""
    return MESSAGE_CHARS + len(str(part.get("content", ""))) if isinstance(part, Mapping) else 1


def _whole(text: str) -> str:
    """Return ``text``; raise InvalidRequest if it holds half a character, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"the prompt is no valid Unicode: {text[error.start]!a} at character {error.start}; was it UTF-8?"
        ) from error
    return text
