"""Tiny random checkpoints, made by transformers, and tokenizers, made by tokenizers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    PhiConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "max_position_embeddings": 600,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False),
    "llama-tied": lambda: LlamaConfig(**SIZES, num_key_value_heads=4, tie_word_embeddings=True, head_dim=20),
    "llama-bias": lambda: LlamaConfig(**SIZES, num_key_value_heads=1, attention_bias=True, mlp_bias=True),
    "llama-llama3": lambda: LlamaConfig(**SIZES, num_key_value_heads=2, rope_parameters=LLAMA3),
    "llama-linear": lambda: LlamaConfig(
        **SIZES, num_key_value_heads=2, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}
    ),
    "llama-dynamic": lambda: LlamaConfig(
        **SIZES, num_key_value_heads=2, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0}
    ),
    "llama-yarn": lambda: LlamaConfig(**SIZES, num_key_value_heads=2, rope_parameters=YARN),
    "mistral": lambda: MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=11, head_dim=20),
    "mistral-whole": lambda: MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=None),
    "qwen3": lambda: Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=20),
    "qwen3-bias": lambda: Qwen3Config(
        **SIZES, num_key_value_heads=4, head_dim=16, attention_bias=True, tie_word_embeddings=True
    ),
    "qwen2-sliding": lambda: Qwen2Config(
        **SIZES, num_key_value_heads=2, use_sliding_window=True, sliding_window=7, max_window_layers=0
    ),
    "qwen2": lambda: Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
}

SHORT: dict[str, Any] = {**SIZES, "max_position_embeddings": 64}
GEMMA: dict[str, Any] = {**SHORT, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8}
SMALL: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# What the generic runner runs.
GENERIC: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=97, n_positions=64, bos_token_id=1, eos_token_id=2
    ),
    "neox": lambda: GPTNeoXConfig(**SMALL, intermediate_size=64),
    "opt": lambda: OPTConfig(**SMALL, ffn_dim=64, word_embed_proj_dim=16),
    "phi": lambda: PhiConfig(**SHORT),
    "gemma": lambda: GemmaConfig(**SHORT, num_key_value_heads=1, head_dim=16),
    "gemma2": lambda: Gemma2Config(**GEMMA, query_pre_attn_scalar=24),
    "gemma3": lambda: Gemma3TextConfig(**GEMMA, layer_types=["sliding_attention", "full_attention"]),
    "qwen2-mixed": lambda: Qwen2Config(
        **SHORT, num_key_value_heads=2, use_sliding_window=True, sliding_window=8, max_window_layers=1
    ),
}


def save_random(directory: Path, config: Any, dtype: torch.dtype, *, seed: int = 0, **save: Any) -> Path:
    """Write a model whose every tensor is random, biases and norms too, so that a forgotten one shows."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3 if parameter.dim() == 1 else 0.2)
    model.to(dtype).save_pretrained(directory, **save)
    return directory


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function from (kind, dtype) to the directory of that checkpoint, made once."""
    made: dict[tuple[str, torch.dtype], Path] = {}

    def make(kind: str, dtype: torch.dtype = torch.float32) -> Path:
        if (kind, dtype) not in made:
            directory = tmp_path_factory.mktemp(kind)
            made[kind, dtype] = save_random(directory, CONFIGS[kind](), dtype)
        return made[kind, dtype]

    return make


@pytest.fixture
def damaged(make_checkpoint: Callable[..., Path], tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """Return a function that copies a good checkpoint with its tensors edited."""

    def damage(edit: Callable[[dict[str, Any]], None]) -> Path:
        source = make_checkpoint("llama")
        tensors = load_file(source / "model.safetensors")
        edit(tensors)
        save_file(tensors, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
        return tmp_path

    return damage


TEXT = [
    "Prove that the sum of two even numbers is even.",
    "def add(a, b):\n    return a + b\n",
    "Größe, naïve, café — “quoted”, 日本語のテキスト, emoji 😀🎉 and 1234567890.",
    "The defendant shall pay; the patient was given 20 mg.",
] * 3


def byte_level() -> Tokenizer:
    """Return a GPT-2/Llama-3 kind of tokenizer: every byte is a token, characters are split over several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Return a Llama-2 kind of tokenizer: words with a leading mark, unknown characters as <0xXX> tokens."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special + byte_tokens, show_progress=False)
    tokenizer.train_from_iterator([text.encode("ascii", "ignore").decode() for text in TEXT], trainer)
    raw = tokenizer.to_str()
    # Training makes byte tokens special; in such files they are plain tokens of the vocabulary.
    import json

    fields = json.loads(raw)
    fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def metaspace() -> Tokenizer:
    """Return a sentencepiece kind of tokenizer: scored pieces, a mark before every word, no tokens for bytes."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": byte_level,
    "byte-fallback": byte_fallback,
    "metaspace": metaspace,
}


@pytest.fixture(scope="session", params=list(TOKENIZERS))
def tokenizer_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write each kind of tokenizer as transformers does."""
    directory = tmp_path_factory.mktemp(request.param)
    backend = TOKENIZERS[request.param]()
    backend.add_special_tokens([AddedToken("<|user|>", special=True)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    wrapped.save_pretrained(directory)
    return directory
