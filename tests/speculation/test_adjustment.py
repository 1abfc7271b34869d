"""If these fail, penalties, bias or minimum lengths are not what OpenAI's API, vLLM and transformers mean by them."""

import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.adjustment import LogitAdjustment

NUM_IDS = 11
PROMPT = (1, 2, 2, 3)
END_IDS = (4, 10)
ids = st.lists(st.integers(0, NUM_IDS - 1), max_size=8)
params = st.builds(
    SamplingParams,
    min_tokens=st.integers(0, 6),
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    repetition_penalty=st.floats(0.5, 2),
    logit_bias=st.dictionaries(st.integers(0, NUM_IDS - 1), st.floats(-5, 5), max_size=3),
)


def plain(logits: torch.Tensor, before: list[int], wanted: SamplingParams) -> torch.Tensor:
    """Adjust one row by transformers' processors and by loops over OpenAI's formulas."""
    row = logits.clone()
    for token_id, bias in wanted.logit_bias.items():
        row[token_id] += bias
    row = row[None]
    context = torch.LongTensor([[*PROMPT, *before]])
    if wanted.min_tokens:
        row = transformers.MinNewTokensLengthLogitsProcessor(len(PROMPT), wanted.min_tokens, list(END_IDS))(
            context, row
        )
    row = transformers.RepetitionPenaltyLogitsProcessor(wanted.repetition_penalty)(context, row)
    row = torch.as_tensor(row[0])
    for token_id in set(before):
        row[token_id] -= before.count(token_id) * wanted.frequency_penalty + wanted.presence_penalty
    return row


@settings(max_examples=60)
@given(params, st.lists(ids, min_size=1, max_size=4), st.integers(0, 100))
def test_every_row_sees_the_text_and_the_drafted_tokens_before_it(
    wanted: SamplingParams, blocks: list[list[int]], seed: int
) -> None:
    """A row would see its own token or later ones, or tokens that were drafted once and rejected."""
    adjustment = LogitAdjustment(wanted, PROMPT, END_IDS, NUM_IDS)
    generator = torch.Generator().manual_seed(seed)
    text: list[int] = []
    for drafted in blocks:
        logits = torch.randn(len(drafted) + 1, NUM_IDS, generator=generator)
        rows = adjustment.apply(logits, text, drafted)
        for i in range(len(drafted) + 1):
            expected = plain(logits[i], text + drafted[:i], wanted)
            torch.testing.assert_close(rows[i], expected)
            alone = adjustment.apply(logits[i : i + 1], text, drafted[:i])[0]
            torch.testing.assert_close(alone, expected)  # as a draft asks, one position after the other
        text += drafted[: len(drafted) // 2]  # the rest was rejected


def test_a_draft_with_fewer_ids_is_adjusted_like_the_target() -> None:
    wanted = SamplingParams(logit_bias={2: 1.0, 10: 3.0}, min_tokens=2, presence_penalty=1.0)
    adjustment = LogitAdjustment(wanted, PROMPT, END_IDS, NUM_IDS)
    logits = torch.randn(1, NUM_IDS)
    narrow = adjustment.apply(logits[:, :7], (5,), ())
    torch.testing.assert_close(narrow, adjustment.apply(logits, (5,), ())[:, :7])


def test_nothing_is_asked_for_by_default() -> None:
    """Every request would pay for it."""
    assert not LogitAdjustment.asked_for(SamplingParams(temperature=1.0, top_k=3, logprobs=2))
