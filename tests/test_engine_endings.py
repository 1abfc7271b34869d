"""Where a text ends, through the whole engine: at every offset, under speculation, streamed and whole."""

from collections.abc import AsyncIterator

import pytest

from memspec_actors import MemSpec, SamplingParams
from memspec_actors.protocols.results import GenerationResult
from tests.engines import zoo_prompt

pytestmark = pytest.mark.anyio

POLICIES = ("target-only", "static:law", "memspec")
PROMPT = zoo_prompt("law", "math", seed="endings")
NUM_TOKENS = 48


@pytest.fixture
async def engine() -> AsyncIterator[MemSpec]:
    async with MemSpec.open() as opened:
        yield opened


async def generate(engine: MemSpec, policy: str, **sampling: object) -> GenerationResult:
    """Stream one generation; its pieces must join to the whole, without a broken character among them."""
    stream = engine.stream(
        PROMPT,
        max_new_tokens=NUM_TOKENS,
        policy=policy,
        sampling=SamplingParams(**sampling),  # type: ignore[arg-type]
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.text for chunk in chunks) == stream.result.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == stream.result.token_ids
    assert stream.result.usage.completion_tokens == len(stream.result.token_ids)
    return stream.result


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_stop_string_cuts_text_and_ids_wherever_it_falls(engine: MemSpec, policy: str) -> None:
    """A stop string split over accepted and bonus tokens would slip through, or leave tokens of itself behind."""
    whole = await generate(engine, "target-only")
    for offset in range(3, len(whole.text) - 6, 19):
        stop = whole.text[offset : offset + 6]
        result = await generate(engine, policy, stop=(stop,))
        assert result.text == whole.text[: whole.text.index(stop)]
        assert result.finish_reason == "stop"
        assert result.token_ids == whole.token_ids[: len(result.token_ids)]


@pytest.mark.parametrize("policy", POLICIES)
async def test_an_end_id_ends_the_text_at_its_first_place(engine: MemSpec, policy: str) -> None:
    """An end token accepted in the middle of a block would let the text run on."""
    whole = await generate(engine, "target-only")
    for position in range(0, NUM_TOKENS, 13):
        end = whole.token_ids[position]
        result = await generate(engine, policy, stop_token_ids=(end,))
        assert result.token_ids == whole.token_ids[: whole.token_ids.index(end) + 1]
        assert result.finish_reason == "stop"
        unended = await generate(engine, policy, stop_token_ids=(end,), ignore_eos=True)
        assert unended.token_ids == whole.token_ids


@pytest.mark.parametrize("policy", POLICIES)
async def test_streams_of_broken_and_multi_byte_characters_join_to_the_whole(engine: MemSpec, policy: str) -> None:
    """A character that falls over two tokens would reach the reader as two broken ones, or twice."""
    lines = "visit Lomwick for Zoë 日本 🙂; bill 7 grorkims for Ünal"
    bytes_of_all_kinds = SamplingParams(temperature=3.0, seed=11)  # draws lone bytes of the byte-level vocabulary
    for sampling in (SamplingParams(), bytes_of_all_kinds):
        stream = engine.stream(lines, max_new_tokens=NUM_TOKENS, policy=policy, sampling=sampling)
        pieces = [chunk.text async for chunk in stream]
        assert "".join(pieces) == stream.result.text
        reference = await engine.generate(lines, max_new_tokens=NUM_TOKENS, policy="target-only", sampling=sampling)
        assert stream.result.token_ids == reference.token_ids
        assert stream.result.text == reference.text
