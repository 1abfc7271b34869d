"""If these fail, the encoder learns items and phases that are none."""

import random
from collections.abc import Sequence

from memspec_actors.predictor.phased_text import NO_ITEM, PhasedText, phased_texts
from memspec_actors.zoo import world
from memspec_actors.zoo.tokenizer import train_tokenizer


def _of(item: int, ids: Sequence[int], items: Sequence[int]) -> list[int]:
    return [token for token, of in zip(ids, items, strict=True) if of == item]


def test_every_token_knows_its_item_and_every_item_its_phase() -> None:
    tokenizer = train_tokenizer(num_documents=50, vocab_size=600)
    texts = phased_texts(tokenizer, "seed")
    rng = random.Random("seed")
    for _ in range(20):
        text, request = next(texts), world.sample_request(rng, world.sample_phases(rng), split="train")
        lines, answers = request.prompt_text.splitlines()[1:-1], request.answer_text.split("\n\n")
        assert tokenizer.decode(text.prompt_ids, skip_special_tokens=True) == request.prompt_text
        assert tokenizer.decode(text.answer_ids) == request.answer_text
        assert [world.DOMAINS[phase] for phase in text.item_phases] == [item.domain for item in request.items]
        for number, (line, answer) in enumerate(zip(lines, answers, strict=True), 1):
            assert tokenizer.decode(_of(number, text.prompt_ids, text.prompt_items)).strip() == line
            assert tokenizer.decode(_of(number, text.answer_ids, text.answer_items)).strip() == answer
        frame = tokenizer.decode(_of(NO_ITEM, text.prompt_ids, text.prompt_items), skip_special_tokens=True)
        assert frame == "Request:\nAnswer:\n"
        assert text.phases == [text.item_phases[item - 1] for item in text.answer_items]


def test_windows_ahead_hold_what_comes_after_the_cut() -> None:
    text = PhasedText(
        prompt_ids=[1],
        answer_ids=list(range(24)),
        prompt_items=[NO_ITEM],
        answer_items=[1] * 12 + [2] * 12,
        item_phases=[2, 0],
    )
    windows = ((0, 8), (8, 16), (16, 20))
    assert text.ahead(10, windows, 3) == [[0.75, 0, 0.25, 0], [0.75, 0, 0, 0.25], [0, 0, 0, 1]]
    assert text.ahead(0, windows, 3) == [[0, 0, 1, 0], [0.5, 0, 0.5, 0], [1, 0, 0, 0]]


def test_next_phase_is_known_however_far_ahead_it_is() -> None:
    text = PhasedText(
        prompt_ids=[1],
        answer_ids=list(range(100)),
        prompt_items=[NO_ITEM],
        answer_items=[1] * 40 + [2] * 40 + [3] * 20,
        item_phases=[2, 2, 0],
    )
    assert [text.next_phase(cut, 3) for cut in (0, 40, 79, 80, 99)] == [0, 0, 0, 3, 3]
