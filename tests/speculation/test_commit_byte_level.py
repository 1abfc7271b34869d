"""commit() over a real byte-level BPE, whose tokens split characters."""

from functools import cache

import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from tokenizers.decoders import DecodeStream

from memspec_actors.speculation.commit import Commit, CommitState

TEXT = "Naïve 🙂 déjà-vu — 漢字 and 👩‍🚀, then END 🙂."


@cache
def tokenizer() -> Tokenizer:
    bpe = ByteLevelBPETokenizer()
    # Merges come from plain English only, so every other character is several tokens.
    bpe.train_from_iterator(["and then the end and then"] * 4, vocab_size=280, min_frequency=2, show_progress=False)
    return Tokenizer.from_str(bpe.to_str())


class StreamDecoder:
    """Decode with tokenizers' own stream."""

    def __init__(self) -> None:
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._given = ""

    def feed(self, token_id: int) -> str:
        self._ids.append(token_id)
        piece = self._stream.step(tokenizer(), token_id) or ""
        self._given += piece
        return piece

    def flush(self) -> str:
        return str(tokenizer().decode(self._ids)).removeprefix(self._given)


def run(ids: list[int], block: int, *, stop: tuple[str, ...] = (), max_new_tokens: int = 1000) -> list[Commit]:
    state = CommitState(
        StreamDecoder(),
        end_ids=frozenset(),
        stop=stop,
        include_stop=False,
        max_new_tokens=max_new_tokens,
        context_left=1000,
    )
    commits = []
    for start in range(0, len(ids), block):
        commits.append(state.commit(ids[start : start + block]))
        if commits[-1].finish_reason is not None:
            break
    assert "".join(commit.text for commit in commits) == state.text
    return commits


def test_the_text_really_splits_characters() -> None:
    """The tests below would test nothing."""
    assert len(tokenizer().encode(TEXT).ids) > len(TEXT) + 10


@pytest.mark.parametrize("block", [1, 2, 3, 5, 100])
def test_streaming_never_splits_a_character(block: int) -> None:
    """A client would be sent halves of characters."""
    commits = run(tokenizer().encode(TEXT).ids, block)
    assert "\ufffd" not in "".join(commit.text for commit in commits)
    assert "".join(commit.text for commit in commits) == TEXT


@pytest.mark.parametrize("block", [1, 4])
def test_a_text_cut_anywhere_is_what_its_ids_decode_to(block: int) -> None:
    """A text cut within a character would lose or invent something at its end."""
    ids = tokenizer().encode(TEXT).ids
    for limit in range(1, len(ids) + 1):
        commits = run(ids, block, max_new_tokens=limit)
        assert commits[-1].finish_reason == "length"
        assert "".join(commit.text for commit in commits) == tokenizer().decode(ids[:limit])


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("stop", ["🙂", "漢字", "END", "— ", "then END 🙂", "é", "👩‍🚀"])
def test_a_stop_string_is_found_however_tokens_split_it(stop: str, block: int) -> None:
    """A stop string of split characters would be missed, or part of it sent."""
    ids = tokenizer().encode(TEXT).ids
    commits = run(ids, block, stop=(stop,))
    kept = [token_id for commit in commits for token_id in commit.ids]
    assert commits[-1].finish_reason == "stop"
    assert "".join(commit.text for commit in commits) == TEXT[: TEXT.index(stop)]
    assert stop in tokenizer().decode(kept)
    assert stop not in tokenizer().decode(kept[:-1])
