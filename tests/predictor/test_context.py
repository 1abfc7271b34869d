"""If these fail, the encoder reads something else than prompt and recent tokens, or more than it has positions for."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.context import ContextLayout, batch_contexts

LAYOUT = ContextLayout(cls_id=1, sep_id=2, vocab_size=100, max_tokens=20, recent_tokens=6)
ids = st.lists(st.integers(0, 99), max_size=40)


@given(prompt=ids, recent=ids)
def test_contexts_hold_the_ends_of_both_parts(prompt: list[int], recent: list[int]) -> None:
    tokens, types = LAYOUT.arrange(prompt, recent)
    kept = recent[-6:] if recent else []
    room = 20 - 3 - len(kept)
    tail = prompt[max(0, len(prompt) - room) :]
    assert tokens == [1, *kept, 2, *tail, 2]
    assert types == [0] * (len(kept) + 2) + [1] * (len(tail) + 1)


@given(prompt=st.lists(st.integers(-5, 10**9), max_size=40), recent=st.lists(st.integers(-5, 10**9), max_size=40))
def test_ids_that_the_encoder_does_not_know_are_left_out(prompt: list[int], recent: list[int]) -> None:
    tokens, _ = LAYOUT.arrange(prompt, recent)
    assert len(tokens) <= 20
    assert all(0 <= token < 100 for token in tokens)


def test_padding_is_masked() -> None:
    batch = batch_contexts([LAYOUT.arrange([5, 6, 7], [8]), LAYOUT.arrange([], [])], pad_id=0)
    assert batch.ids.tolist() == [[1, 8, 2, 5, 6, 7, 2], [1, 2, 2, 0, 0, 0, 0]]
    assert batch.mask.sum(1).tolist() == [7, 3]
    assert torch.equal(batch.token_types[0], torch.tensor([0, 0, 0, 1, 1, 1, 1]))
