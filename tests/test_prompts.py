"""Encoding beside the event loop: short prompts in turn, long ones in a thread."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from memspec_actors.errors import InvalidRequest
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.prompts import LONG_CHARS, Prompt, PromptEncoder


class SlowTokenizer:
    """Encode each text to its length; a long one waits until the gate opens."""

    chat_template = None

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.order: list[int] = []
        self.threads: set[int] = set()

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]]) -> str:
        return "".join(f"{each['role']}: {each['content']}\n" for each in messages)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        if len(text) >= LONG_CHARS:
            assert self.gate.wait(10)
        self.order.append(len(text))
        self.threads.add(threading.get_ident())
        return [len(text) % 7]


def encoder(tokenizer: SlowTokenizer) -> PromptEncoder:
    return PromptEncoder(cast(Tokenizer, tokenizer), num_ids=7)


def test_short_prompts_are_encoded_in_the_order_in_which_they_come() -> None:
    """Were each to go to a thread, whichever ended first would be served first."""
    tokenizer = SlowTokenizer()

    async def encode_all() -> None:
        prompts = encoder(tokenizer)
        await asyncio.gather(*(prompts.encode_aside("x" * length) for length in range(1, 100)))

    asyncio.run(encode_all())
    assert tokenizer.order == list(range(1, 100))
    assert tokenizer.threads == {threading.get_ident()}


EMPTY_MESSAGE = {"role": "user", "content": ""}


@pytest.mark.parametrize("prompt", ["x" * LONG_CHARS, "é" * LONG_CHARS, [EMPTY_MESSAGE] * (LONG_CHARS // 8)])
def test_long_prompt_does_not_hold_up_the_event_loop(prompt: Prompt) -> None:
    tokenizer = SlowTokenizer()

    async def encode_both() -> None:
        prompts = encoder(tokenizer)
        long = asyncio.create_task(prompts.encode_aside(prompt))
        await asyncio.sleep(0)
        await prompts.encode_aside("short")  # ends while the long one is at the gate
        tokenizer.gate.set()
        await long

    asyncio.run(encode_both())
    assert tokenizer.order[0] == len("short")
    assert threading.get_ident() in tokenizer.threads
    assert len(tokenizer.threads) == 2


@pytest.mark.parametrize("ids", [[3, True, 0], (6,), [0] * 20_000])
def test_token_ids_are_taken_as_they_are(ids: Sequence[int]) -> None:
    assert encoder(SlowTokenizer()).encode(ids) == tuple(ids)


@pytest.mark.parametrize(("ids", "named"), [([3, 7, -1], "7"), ([3, -1, 7], "-1"), ([2**70], str(2**70))])
def test_the_first_id_that_the_target_lacks_is_named(ids: Sequence[int], named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"0 to 6, such as {named}$"):
        encoder(SlowTokenizer()).encode(ids)
