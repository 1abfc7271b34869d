"""What a prompt may be, and the token ids that the target sees for it."""

from collections.abc import Mapping, Sequence
from functools import partial

import anyio.to_thread

from memspec_actors.errors import InvalidRequest
from memspec_actors.models.tokenizer import Tokenizer

__all__ = ["Messages", "Prompt", "PromptEncoder"]

Messages = Sequence[Mapping[str, str]]
Prompt = str | Messages | Sequence[int]

LONG_CHARS = 4096  # about 6 ms of encoding


class PromptEncoder:
    """Turn text, chat messages or token ids into token ids below ``num_ids``."""

    def __init__(self, tokenizer: Tokenizer, num_ids: int) -> None:
        self._tokenizer = tokenizer
        self._num_ids = num_ids

    def encode(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return the token ids of a prompt as the target sees it. Raises InvalidRequest for one that cannot be used."""
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray | memoryview):
            raise InvalidRequest(f"the prompt is a {type(prompt).__name__}; give text, chat messages, or token ids")
        if not isinstance(prompt, str) and all(isinstance(each, int) for each in prompt):
            ids = tuple(each for each in prompt if isinstance(each, int))
        elif isinstance(prompt, str) and (raw or self._tokenizer.chat_template is None):
            ids = tuple(self._tokenizer.encode(_whole(prompt)))
        elif isinstance(prompt, str):
            ids = tuple(self._tokenizer.encode(self.chat_prompt(_whole(prompt)), add_special_tokens=False))
        else:
            ids = tuple(self._tokenizer.encode(_whole(self.chat_prompt(prompt)), add_special_tokens=False))
        if not ids:
            raise InvalidRequest("the prompt is empty; give at least one token")
        unknown = next((each for each in ids if not 0 <= each < self._num_ids), None)
        if unknown is not None:
            raise InvalidRequest(f"the prompt has token ids outside 0 to {self._num_ids - 1}, such as {unknown}")
        return ids

    async def encode_aside(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """Return `encode` of a prompt, from a worker thread if it is so long that it would hold up the event loop.

        Short ones keep the order in which they come: a thread would not.
        """
        if _num_chars(prompt) < LONG_CHARS:
            return self.encode(prompt, raw=raw)
        return await anyio.to_thread.run_sync(partial(self.encode, prompt, raw=raw))

    def chat_prompt(self, prompt: Prompt) -> str:
        """Return the text that the target sees for a plain prompt or chat messages: wrapped by its chat template."""
        if isinstance(prompt, str):
            return self._tokenizer.apply_chat_template([{"role": "user", "content": prompt}])
        messages = [each for each in prompt if isinstance(each, Mapping)]
        if len(messages) != len(prompt):
            raise InvalidRequest("a prompt is text, chat messages, or token ids")
        return self._tokenizer.apply_chat_template(messages)


def _num_chars(prompt: Prompt) -> int:
    """Return the length of a prompt's text; what is no text at all counts by its parts."""
    if isinstance(prompt, str) or not isinstance(prompt, Sequence):
        return len(prompt) if isinstance(prompt, str) else 0
    return sum(len(str(each.get("content", ""))) if isinstance(each, Mapping) else 1 for each in prompt)


def _whole(text: str) -> str:
    """Return ``text``; raise InvalidRequest if it holds half a character, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"the prompt is no valid Unicode: {text[error.start]!a} at character {error.start}; was it UTF-8?"
        ) from error
    return text
