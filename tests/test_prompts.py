"""Encoding beside the event loop: short prompts in turn, long ones in a thread."""

import asyncio
import threading
from typing import cast

import pytest

from memspec_actors.models.tokenizer import Tokenizer
from memspec_actors.prompts import LONG_CHARS, Prompt, PromptEncoder


class SlowTokenizer:
    """Encode each text to its length; the first text waits until the gate opens."""

    chat_template = None

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.order: list[int] = []
        self.threads: set[int] = set()

    def encode(self, text: str) -> list[int]:
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


@pytest.mark.parametrize("prompt", ["x" * LONG_CHARS, "é" * LONG_CHARS])
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
    assert tokenizer.order == [5, LONG_CHARS]
    assert threading.get_ident() in tokenizer.threads
    assert len(tokenizer.threads) == 2
