"""Text given out piece by piece is the text of all ids, and never ends inside a character."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memspec_actors.models.text.incremental import IncrementalDecoder
from memspec_actors.models.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
SAMPLES = ["é", "😀", "👩‍👩‍👧", "日本", REPLACEMENT, REPLACEMENT * 2, " ", "  a", "</s>", "<|user|>", "x.", "\n", "12"]


@pytest.fixture(scope="module")
def tokenizer(tokenizer_directory: Path) -> Tokenizer:
    return Tokenizer.open(tokenizer_directory)


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    decoder = IncrementalDecoder(tokenizer)
    return [*(decoder.feed(index) for index in ids), decoder.flush()]


@settings(max_examples=150)
@given(
    text=st.lists(st.one_of(st.sampled_from(SAMPLES), st.text(max_size=4)), max_size=60).map("".join),
)
def test_pieces_of_real_text_join_to_it(tokenizer: Tokenizer, text: str) -> None:
    """Else a streamed answer would differ from the final one, or show broken characters on the way."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    given_out = pieces(tokenizer, ids)
    whole = tokenizer.decode(ids)
    assert "".join(given_out) == whole
    assert sum(piece.count(REPLACEMENT) for piece in given_out) == whole.count(REPLACEMENT)


@settings(max_examples=300)
@given(data=st.data())
def test_pieces_of_any_ids_join_to_their_decoding(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Else a model that emits stray bytes or special tokens would make the stream and the result disagree."""
    token = st.integers(0, tokenizer.num_ids - 1)
    stray = st.one_of(st.integers(0, 30), st.integers(125, 262))  # special tokens and single bytes
    ids = data.draw(st.lists(st.one_of(token, stray), max_size=200))
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@settings(max_examples=200)
@given(data=st.data())
def test_special_tokens_amid_a_character_do_not_break_it(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Else a skipped control token between two bytes would leave a broken character in the stream only."""
    bytes_and_specials = st.sampled_from([*tokenizer.encode("🜚", add_special_tokens=False), 0, 1, 2])
    ids = data.draw(st.lists(bytes_and_specials, max_size=12))
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


@settings(max_examples=20)
@given(text=st.lists(st.sampled_from(SAMPLES), min_size=60, max_size=200).map("".join))
@example(text="</s>" * 150 + " a")
@example(text=" " * 150)
@example(text="😀" * 100)
@example(text="a" + "</s>" * 70 + " a")
def test_long_texts_are_not_disturbed_by_the_moving_window(tokenizer: Tokenizer, text: str) -> None:
    """Else a long answer would lose or repeat text where the decoder forgets its beginning."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


def test_plain_text_is_not_held_back(tokenizer: Tokenizer) -> None:
    """Else the user would see each word only after the next one."""
    decoder = IncrementalDecoder(tokenizer)
    ids = tokenizer.encode("add the numbers", add_special_tokens=False)
    shown = ""
    for position, index in enumerate(ids):
        shown += decoder.feed(index)
        assert shown == tokenizer.decode(ids[: position + 1])


@pytest.mark.parametrize("tokenizer_directory", ["byte-level", "byte-fallback"], indirect=True)
def test_a_character_comes_whole_with_its_last_byte(tokenizer: Tokenizer) -> None:
    """Else half an emoji would reach the screen."""
    ids = tokenizer.encode("🜚a", add_special_tokens=False)
    assert len(ids) > 3, "the character must be split over several tokens"
    given_out = [piece for piece in pieces(tokenizer, ids) if piece]
    assert "".join(given_out) == "🜚a"
    assert given_out[0].startswith("🜚")
