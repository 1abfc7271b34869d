"""Small real material for the predictor's tests: a separable trace, an encoder directory with its tokenizer."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

from memspec_actors.predictor.encoder import BertEncoder, EncoderConfig
from memspec_actors.predictor.traces import accepted_runs, open_trace_writer
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader, TraceRecord

DRAFTS = ("a", "b", "c")
HALF = 60  # tokens of one half of a text: two and a half intervals of the right draft
WORDS = ["<pad>", "<s>", "</s>", *(f"w{index}" for index in range(29))]

TraceMaker = Callable[..., Path]


def write_tokenizer(directory: Path, words: list[str]) -> None:
    """Write a tokenizer of whole words, ids in the order given."""
    model = tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<pad>")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    directory.mkdir(parents=True, exist_ok=True)
    backend.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>"}')


@pytest.fixture(scope="session")
def encoder_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained encoder over 32 words."""
    directory = tmp_path_factory.mktemp("encoder")
    config = EncoderConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=96,
    )
    encoder = BertEncoder(config)
    encoder.initialise(torch.Generator().manual_seed(1))
    encoder.words.weight.data.mul_(30)  # so that states tell the words apart without training
    encoder.save(directory)
    write_tokenizer(directory, WORDS)
    return directory


@pytest.fixture(scope="module", params=["gelu", "relu", "gelu_new"])
def bert(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A random BertModel of transformers, one for each activation, and where it saved itself."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=50,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=80,
        max_position_embeddings=40,
        hidden_act=request.param,
    )
    model = BertModel(config).eval()
    for parameter in model.parameters():  # biases and norms too, so that a lost one shows
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    directory = tmp_path_factory.mktemp("bert")
    model.save_pretrained(directory)
    return model, directory


def separable_record(rng: random.Random) -> TraceRecord:
    """A text in two halves; in each one the draft that its words belong to is always right, the others never.

    The prompt names the two halves in order, so only prompt and text together tell what comes next.
    """
    halves = rng.sample(range(3), 2)
    words = [10 + 5 * half + rng.randrange(5) for half in halves for _ in range(HALF)]
    owners = [half for half in halves for _ in range(HALF)]
    accepted = {name: accepted_runs([owner == i for owner in owners], 5) for i, name in enumerate(DRAFTS)}
    prompt = (1, 4 + halves[0], 7 + halves[1], *(25 + rng.randrange(7) for _ in range(3)))
    kind = "mixed" if rng.random() < 0.7 else "plain"
    entropies = {name: (1.5,) * len(words) for name in DRAFTS}
    return TraceRecord(prompt_ids=prompt, output_ids=tuple(words), accepted=accepted, entropies=entropies, kind=kind)


@pytest.fixture
def make_trace(tmp_path: Path) -> TraceMaker:
    """Write a separable trace: ``make_trace(name, count, seed)``."""

    def make(name: str, count: int, seed: int = 0) -> Path:
        rng = random.Random(seed)
        header = TraceHeader(
            format=TRACE_FORMAT,
            target="t",
            drafts={draft: draft for draft in DRAFTS},
            draft_nbytes=dict.fromkeys(DRAFTS, 64),
            k=5,
            max_new_tokens=2 * HALF,
            vocab_size=len(WORDS),
            eos_ids=(2,),
            iteration_us=10_000.0,
            versions={},
        )
        path = tmp_path / name
        records: dict[tuple[int, ...], TraceRecord] = {}
        while len(records) < count:
            record = separable_record(rng)
            records.setdefault(record.prompt_ids, record)
        with open_trace_writer(path, header) as writer:
            for record in records.values():
                writer.write(record)
        return path

    return make


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random target and two drafts of transformers' making: ``target``, ``near`` (the target with noise), ``far``."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    root = tmp_path_factory.mktemp("models")
    for index, name in enumerate(("target", "near", "far")):
        torch.manual_seed(11 if name != "far" else 12)
        config = LlamaConfig(
            vocab_size=40,  # eight more than the tokenizer has
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=128,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
        model = LlamaForCausalLM(config)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data.mul_(4)  # fresh weights would repeat one token for ever
                if name == "near":
                    parameter.data.add_(torch.randn(parameter.shape) * 0.02 * index)
        model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0)
        model.save_pretrained(root / name)
        write_tokenizer(root / name, WORDS)
    return root
