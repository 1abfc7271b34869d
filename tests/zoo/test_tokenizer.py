"""The shared tokenizer and its chat template."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from memspec_actors.zoo.tokenizer import BOS, BOS_ID, EOS, EOS_ID, train_tokenizer, write_tokenizer
from memspec_actors.zoo.world import ANCHORS


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(num_documents=100, vocab_size=400)


def test_training_is_deterministic(tokenizer: Tokenizer) -> None:
    """Rebuilt drafts would not share the shipped target's vocabulary."""
    assert train_tokenizer(num_documents=100, vocab_size=400).to_str() == tokenizer.to_str()


@pytest.mark.parametrize("text", ["limit=407 for Ada", "a  b\n\n\tc", "schöne Grüße, 世界 🙂"])
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    """Prompts outside the little world would be changed on their way in."""
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_digits_are_single_tokens(tokenizer: Tokenizer) -> None:
    """Numbers could not be copied digit by digit."""
    tokens = tokenizer.encode(" 407", add_special_tokens=False).tokens
    assert [token.replace("Ġ", " ") for token in tokens] == [" 4", "0", "7"]


def test_special_tokens_have_their_ids(tokenizer: Tokenizer) -> None:
    """Generation would not stop, or start without its first token."""
    assert tokenizer.encode(EOS).ids == tokenizer.encode(BOS + EOS, add_special_tokens=False).ids == [BOS_ID, EOS_ID]


@pytest.fixture(scope="module")
def chat(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(tokenizer, directory)
    return directory


def rendered(directory: Path, content: str) -> str:
    transformers = pytest.importorskip("transformers")
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    text: str = loaded.apply_chat_template([{"role": "user", "content": content}], tokenize=False)
    return text


def test_plain_prompt_becomes_a_request(chat: Path) -> None:
    """A user's words would not look like anything the models know."""
    assert rendered(chat, "invite Omar to Old Velton; price 4 dry dunols for Ada") == (
        "<s>Request:\nFirst invite Omar to Old Velton;\nSecond price 4 dry dunols for Ada?\nAnswer:\n"
    )


def test_lines_and_marks_are_normalised(chat: Path) -> None:
    """Blank lines would become empty items, and a trailing full stop a second mark."""
    assert rendered(chat, "  visit A for B.\n\ncite C Act for D;\n") == (
        "<s>Request:\nFirst visit A for B;\nSecond cite C Act for D?\nAnswer:\n"
    )


def test_request_form_is_left_alone(chat: Path) -> None:
    """Prompts from the generator would be wrapped twice."""
    request = "Request:\nFirst visit A for B?\nAnswer:\n"
    assert rendered(chat, request) == "<s>" + request


def test_surplus_lines_are_dropped(chat: Path) -> None:
    """An item without an anchor would confuse all the others."""
    lines = rendered(chat, "; ".join(f"visit A{i} for B" for i in range(9))).split("\n")
    assert [line.split()[0] for line in lines[1:-2]] == list(ANCHORS)
    assert lines[-3].endswith("?")
