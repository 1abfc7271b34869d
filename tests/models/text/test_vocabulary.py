"""A draft is admitted only if it means the same by every id that it shares with the target."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memspec_actors.errors import CheckpointError, IncompatibleDraft
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.text.vocabulary import TokenizerFile, check_compatible

WORDS = ["<pad>", "<s>", "</s>", "a", "b", "ab", "c"]
MERGES: list[Any] = [["a", "b"]]


@pytest.fixture
def model(make_checkpoint: Callable[..., Path], tmp_path: Path) -> Callable[..., Checkpoint]:
    """Return a function that makes a checkpoint with a given tokenizer and width of logits."""

    def make(
        name: str, words: Any = WORDS, *, width: int = 97, merges: list[Any] = MERGES, added: list[Any] | None = None
    ) -> Checkpoint:
        directory = tmp_path / name
        directory.mkdir()
        vocab = {word: index for index, word in enumerate(words)} if isinstance(words, list) else words
        fields = {"added_tokens": added or [], "model": {"type": "BPE", "vocab": vocab, "merges": merges}}
        (directory / "tokenizer.json").write_text(json.dumps(fields))
        checkpoint = Checkpoint.open(make_checkpoint("llama"))
        changed = {field: getattr(checkpoint, field) for field in checkpoint.__struct_fields__}
        return Checkpoint(**{**changed, "path": directory, "vocab_size": width})

    return make


def test_the_same_tokenizer_shares_every_real_id(model: Callable[..., Checkpoint]) -> None:
    """Else good drafts would be refused."""
    assert check_compatible(model("target"), model("draft")).num_common == 7


@pytest.mark.parametrize(("target_width", "draft_width", "common"), [(97, 128, 7), (128, 7, 7), (7, 6, 6), (5, 97, 5)])
def test_padding_is_not_common(
    model: Callable[..., Checkpoint], target_width: int, draft_width: int, common: int
) -> None:
    """Else an id that no tokenizer knows could be emitted, or one that a model cannot embed."""
    target, draft = model("target", width=target_width), model("draft", width=draft_width)
    assert check_compatible(target, draft).num_common == common


def test_further_tokens_at_the_end_of_either_are_not_common(model: Callable[..., Checkpoint]) -> None:
    """Else a draft would be fed ids that it knows as something else."""
    longer = model("longer", added=[{"id": 7, "content": "<tool>"}])
    shorter = model("shorter")
    assert check_compatible(longer, shorter).num_common == 7
    assert check_compatible(shorter, longer).num_common == 7
    assert TokenizerFile.open(longer.path).num_ids == 8


@pytest.mark.parametrize("index", range(7))
def test_the_first_differing_id_is_named(model: Callable[..., Checkpoint], index: int) -> None:
    """Else a tokenizer of the same size with other meanings would draft nonsense, and nobody would know why."""
    words = [*WORDS[:index], *[f"other{position}" for position in range(index, 7)]]
    with pytest.raises(
        IncompatibleDraft, match=rf"draft.*id {index} is 'other{index}'.*'{WORDS[index]}' in the target"
    ):
        check_compatible(model("target"), model("draft", words))


def test_an_added_token_counts_like_any_other(model: Callable[..., Checkpoint]) -> None:
    """Else two models with different control tokens would be taken for compatible."""
    target = model("target", added=[{"id": 7, "content": "<|a|>"}])
    draft = model("draft", added=[{"id": 7, "content": "<|b|>"}])
    with pytest.raises(IncompatibleDraft, match=r"id 7 is '<\|b\|>'"):
        check_compatible(target, draft)


def test_a_gap_is_not_a_token(model: Callable[..., Checkpoint]) -> None:
    """Else ids that only one of them uses would be counted as common."""
    gap = {word: index if index < 5 else index + 1 for index, word in enumerate(WORDS)}
    with pytest.raises(IncompatibleDraft, match="id 5 is None"):
        check_compatible(model("target"), model("draft", gap))


@pytest.mark.parametrize("merges", [[["b", "a"]], [["a", "b"], ["b", "c"]], []])
def test_other_merges_are_another_tokenizer(model: Callable[..., Checkpoint], merges: list[Any]) -> None:
    """Else a draft that learned text cut in another way would be used, at a loss that nothing explains."""
    with pytest.raises(IncompatibleDraft, match=r"merge [01] is"):
        check_compatible(model("target"), model("draft", merges=merges))


def test_both_spellings_of_merges_are_the_same(model: Callable[..., Checkpoint]) -> None:
    """Else a draft saved by another version of the same library would be refused."""
    assert check_compatible(model("target"), model("draft", merges=["a b"])).num_common == 7


def test_a_vocabulary_of_scored_pieces_is_read(model: Callable[..., Checkpoint]) -> None:
    """Else Unigram tokenizers could not be compared."""
    pieces = [[word, -1.0] for word in WORDS]
    checkpoint = model("target")
    fields = {"model": {"type": "Unigram", "vocab": pieces}}
    (checkpoint.path / "tokenizer.json").write_text(json.dumps(fields))
    assert TokenizerFile.open(checkpoint.path).tokens == tuple(WORDS)


@pytest.mark.parametrize(
    "content",
    [None, "", "{}", '{"model": {"vocab": 3}}', '{"model": {"vocab": {"a": -1}}}', '{"model": {"vocab": {"a": 1e18}}}'],
)
def test_an_unusable_tokenizer_is_named(model: Callable[..., Checkpoint], content: str | None) -> None:
    """Else the user would not know whose tokenizer is damaged."""
    draft = model("draft")
    file = draft.path / "tokenizer.json"
    file.unlink()
    if content is not None:
        file.write_text(content)
    with pytest.raises(CheckpointError, match=r"draft.*tokenizer\.json"):
        check_compatible(model("target"), draft)
