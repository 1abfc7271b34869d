"""Text becomes the ids that transformers gives, and chats the same prompts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoTokenizer,
    GemmaTokenizer,
    GPT2Tokenizer,
    GPTNeoXTokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
)

from memspec_actors.errors import CheckpointError, InvalidRequest
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.text.vocabulary import TokenizerFile
from tests.models.conftest import byte_fallback, byte_level

Edited = Callable[..., Path]


@pytest.fixture
def edited(tokenizer_directory: Path, tmp_path: Path) -> Edited:
    """Return a function that copies the tokenizer with its configuration changed."""

    def edit(**changes: Any) -> Path:
        directory = Path(shutil.copytree(tokenizer_directory, tmp_path / "tokenizer"))
        config = directory / "tokenizer_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
        return directory

    return edit


TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from([" ", "</s>", "<s>", "<|user|>", "a", "\n", "😀", "é", "12"])).map("".join),
)


@settings(max_examples=80)
@given(text=TEXTS, special=st.booleans())
def test_ids_and_text_equal_transformers(tokenizer_directory: Path, text: str, special: bool) -> None:
    """Else the model would be asked something else than what the user wrote."""
    ours = Tokenizer.open(tokenizer_directory)
    theirs = AutoTokenizer.from_pretrained(tokenizer_directory)
    ids = ours.encode(text, add_special_tokens=special)
    assert ids == theirs.encode(text, add_special_tokens=special)
    for skip in (True, False):
        assert ours.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)


def test_special_ids_and_size(tokenizer_directory: Path) -> None:
    """Else the text would not end, or ids of padding would be emitted."""
    ours = Tokenizer.open(tokenizer_directory)
    theirs = AutoTokenizer.from_pretrained(tokenizer_directory)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)
    assert ours.num_ids == len(theirs)
    assert dict(ours.vocab) == theirs.get_vocab()


@pytest.mark.parametrize("single", ["<s> $A", "$A </s>", "<s> $A </s>", "$A"])
@pytest.mark.parametrize("flag", [True, False])
def test_begin_and_end_tokens_equal_transformers(edited: Edited, single: str, flag: bool) -> None:
    """Else a model trained with <s> in front would see texts without it, or with two of them."""
    directory = edited(add_bos_token=flag, add_eos_token=flag)  # tokenizer.json decides, whatever these say
    backend = Backend.from_file(str(directory / "tokenizer.json"))
    backend.post_processor = TemplateProcessing(single=single, special_tokens=[("<s>", 1), ("</s>", 2)])
    backend.save(str(directory / "tokenizer.json"))
    theirs = AutoTokenizer.from_pretrained(directory)
    ours = Tokenizer.open(directory)
    for special in (True, False):
        expected = theirs.encode("Prove it.", add_special_tokens=special)
        assert ours.encode("Prove it.", add_special_tokens=special) == expected


FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaTokenizer(**pieces(byte_fallback())),
    "llama with an end": lambda: LlamaTokenizer(**pieces(byte_fallback()), add_eos_token=True),
    "gemma": lambda: GemmaTokenizer(**pieces(byte_fallback())),
    "qwen2": lambda: Qwen2Tokenizer(**pieces(byte_level())),
    "gpt2": lambda: GPT2Tokenizer(**pieces(byte_level())),
    "gpt2 with a begin": lambda: GPT2Tokenizer(**pieces(byte_level()), add_bos_token=True),
    "neox": lambda: GPTNeoXTokenizer(**pieces(byte_level())),
}
SAMPLES = ["Prove that 12 is even.", " two  spaces\n\n", "café 日本 😀", "<s>hi</s><|endoftext|>", ""]


def pieces(backend: Backend) -> dict[str, Any]:
    """Return a tokenizer's vocabulary and merges, as older files and the families' own classes have them."""
    model = json.loads(backend.to_str())["model"]
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    return {"vocab": model["vocab"], "merges": merges}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokenizers_of_every_family_are_read_as_transformers_reads_them(family: str, tmp_path: Path) -> None:
    """Else what a family's own class adds beside tokenizer.json would be lost."""
    FAMILIES[family]().save_pretrained(tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.open(tmp_path)
    for text in SAMPLES:
        ids = ours.encode(text)
        assert ids == theirs.encode(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Write a tokenizer as OPT has it: no tokenizer.json, special tokens in a file of their own."""
    parts = pieces(byte_level())
    (tmp_path / "vocab.json").write_text(json.dumps(parts["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, parts["merges"])))
    settings = {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "unk_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": "</s>", "eos_token": "</s>"}))
    return tmp_path


def test_older_files_are_read_as_transformers_reads_them(older: Path) -> None:
    """Else OPT and other old checkpoints would be refused, or their texts would lack the token that they begin with."""
    theirs, ours = AutoTokenizer.from_pretrained(older), Tokenizer.open(older)
    assert ours.encode("Prove it.")[0] == ours.bos_id == 2
    for text in SAMPLES:
        assert ours.encode(text) == theirs.encode(text)
    assert TokenizerFile.open(older).num_ids == ours.num_ids == len(theirs)


def test_a_sentencepiece_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Else the user would get a traceback of a package that may not be installed."""
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a\x0e")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .*save_pretrained") as caught:
        Tokenizer.open(tmp_path)
    assert "\n" not in str(caught.value)


def test_ids_that_no_token_has_are_known(edited: Edited) -> None:
    """Else they could be emitted."""
    directory = edited()
    assert Tokenizer.open(directory).gap_ids == ()
    fields = json.loads((directory / "tokenizer.json").read_text())
    last = max(token["id"] for token in fields["added_tokens"])
    fields["added_tokens"][-1]["id"] = last + 3
    (directory / "tokenizer.json").write_text(json.dumps(fields))
    ours = Tokenizer.open(directory)
    assert not set(ours.gap_ids) & set(ours.vocab.values())
    assert sorted({*ours.gap_ids, *ours.vocab.values()}) == list(range(ours.num_ids))


def test_special_tokens_of_older_files_are_read(edited: Edited) -> None:
    """Else checkpoints that describe a token by an object would have no end token."""
    directory = edited(eos_token={"__type": "AddedToken", "content": "</s>", "special": True})
    assert Tokenizer.open(directory).eos_id == 2


def test_truncation_and_padding_stored_in_the_file_are_ignored(tokenizer_directory: Path, tmp_path: Path) -> None:
    """Else long prompts would lose their end without a word."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_directory).backend_tokenizer
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(Tokenizer.open(tmp_path).encode("one two three four five six seven eight nine ten eleven")) > 9


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_an_unusable_tokenizer_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    """Else the user would not know which file to fetch."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.open(tmp_path)


def test_a_damaged_configuration_is_named(tokenizer_directory: Path, tmp_path: Path) -> None:
    """Else a tokenizer without its special tokens would be used."""
    directory = Path(shutil.copytree(tokenizer_directory, tmp_path / "tokenizer"))
    (directory / "tokenizer_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        Tokenizer.open(directory)


MESSAGES = [
    {"role": "system", "content": "Be brief & <polite>."},
    {"role": "user", "content": "  Prove 1 + 1 = 2. "},
    {"role": "assistant", "content": "Sure.\n"},
    {"role": "user", "content": "Go on 😀"},
]
TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "special tokens": "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{{ eos_token }}{% endfor %}",
    "blocks and loop controls": "{%- for m in messages %}\n    {% if m.role == 'system' %}\n{% continue %}\n    "
    "{% endif %}\n{{ loop.index0 }} {{ m.content }}\n    {%- if loop.last %}{% break %}{% endif %}\n{% endfor %}",
    "json": "{{ messages | tojson }} {{ messages[0] | tojson(indent=2) }}",
    "generation mark": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\n{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "tools": "{% if tools %}tools{% else %}none{% endif %}{% if documents is defined and documents %}docs{% endif %}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "year": "{{ strftime_now('%Y') }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("prompt", [True, False])
def test_chat_prompts_equal_transformers(edited: Edited, name: str, prompt: bool) -> None:
    """Else an instruction-tuned model would be spoken to in a format that it was not trained on."""
    directory = edited(chat_template=TEMPLATES[name])
    theirs = AutoTokenizer.from_pretrained(directory)
    expected = theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=prompt)
    assert Tokenizer.open(directory).apply_chat_template(MESSAGES, add_generation_prompt=prompt) == expected


def test_the_default_of_several_templates_is_used(edited: Edited) -> None:
    """Else models with a template for tools could not chat."""
    templates = [{"name": "tool_use", "template": "wrong"}, {"name": "default", "template": "{{ messages | length }}"}]
    assert Tokenizer.open(edited(chat_template=templates)).apply_chat_template(MESSAGES) == "4"


def test_a_template_in_its_own_file_wins(edited: Edited) -> None:
    """Else newer checkpoints, which keep the template beside the configuration, could not chat."""
    directory = edited(chat_template="wrong")
    (directory / "chat_template.jinja").write_text("{{ messages[1].content }}")
    assert Tokenizer.open(directory).apply_chat_template(MESSAGES) == MESSAGES[1]["content"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for %}", "chat template"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 1 + 'a' }}", "chat template"),
    ],
)
def test_a_template_that_refuses_or_misbehaves_is_the_requests_error(
    edited: Edited, template: str, message: str
) -> None:
    """Else a downloaded template could run code, or a wrong role would look like a fault of the engine."""
    with pytest.raises(InvalidRequest, match=message):
        Tokenizer.open(edited(chat_template=template)).apply_chat_template(MESSAGES)


def test_a_model_without_a_template_says_so(tokenizer_directory: Path) -> None:
    """Else messages would be joined in some invented way."""
    with pytest.raises(InvalidRequest, match="no chat template"):
        Tokenizer.open(tokenizer_directory).apply_chat_template(MESSAGES)
