"""Any causal model of transformers runs behind the same interface, on the memory it was loaded into."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, LlamaConfig, MistralConfig

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoint import Checkpoint
from memspec_actors.models.generic import TransformersRunner
from memspec_actors.models.loading import load_into
from memspec_actors.models.plan import LoadPlan
from memspec_actors.models.runner import open_runner
from tests.models.conftest import SIZES, save_random

ENDS: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
SHORT: dict[str, Any] = {**SIZES, "max_position_embeddings": 64}
OTHERS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=97, n_positions=64, **ENDS),
    "neox": lambda: GPTNeoXConfig(
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=97,
        max_position_embeddings=64,
        **ENDS,
    ),
    "sliding": lambda: MistralConfig(**SHORT, num_key_value_heads=2, sliding_window=8),
    "yarn": lambda: LlamaConfig(
        **SHORT,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 2.0,
            "original_max_position_embeddings": 32,
        },
    ),
}


@pytest.fixture(scope="module", params=list(OTHERS))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp(request.param), OTHERS[request.param](), torch.float32)


@pytest.fixture(scope="module")
def runner(directory: Path) -> TransformersRunner:
    opened = open_runner(Checkpoint.open(directory), dtype="float32")
    assert isinstance(opened, TransformersRunner)
    return opened


IDS = torch.randint(97, (40,), generator=torch.Generator().manual_seed(0))


def test_logits_equal_transformers(directory: Path, runner: TransformersRunner) -> None:
    """Else models outside the Llama family would not be what their users trained."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        expected = model(IDS[None]).logits[0]
    for sizes in ([40], [1] * 40, [7, 1, 30, 2]):
        cache = runner.new_cache(40)
        got = torch.cat([runner.forward(piece, cache) for piece in torch.split(IDS, sizes)])
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    last = runner.forward(IDS, runner.new_cache(40), last_only=True)
    torch.testing.assert_close(last, expected[-1:], atol=1e-4, rtol=1e-4)


def test_rollback_to_every_length_equals_a_fresh_computation(runner: TransformersRunner) -> None:
    """Else rejected draft tokens would leave traces in the text that follows."""
    expected = runner.forward(IDS, runner.new_cache(40))
    cache = runner.new_cache(40)
    for length in range(20, -1, -1):
        cache.truncate(min(cache.length, 3))
        runner.forward([5] * (20 - cache.length), cache)
        cache.truncate(0)
        runner.forward(IDS[:20], cache)
        assert cache.truncate(length) == 20 - length
        again = runner.forward(IDS[length:], cache)
        torch.testing.assert_close(again, expected[length:], atol=1e-4, rtol=1e-4)
    cache.reset()
    assert cache.length == 0


def test_the_model_runs_on_the_memory_it_was_loaded_into(directory: Path) -> None:
    """Else such a draft would live outside the memory budget."""
    plan = LoadPlan.of(Checkpoint.open(directory), "float32")
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory)
    runner = plan.bind(memory)
    before = runner.forward([4, 5], runner.new_cache(2))
    memory.zero_()
    assert before.abs().max() > 0
    assert runner.forward([4, 5], runner.new_cache(2)).abs().max() == 0


def test_too_many_and_no_tokens_are_refused(runner: TransformersRunner) -> None:
    """Else the model would be asked for positions that it does not have."""
    cache = runner.new_cache(64)
    runner.forward([3] * 64, cache)
    with pytest.raises(ValueError, match="64 positions"):
        runner.forward([3], cache)
    with pytest.raises(ValueError, match="no tokens"):
        runner.forward([], cache)
    with pytest.raises(ValueError, match="64 tokens"):
        cache.truncate(65)
    assert cache.length == 64


def test_an_absent_tensor_is_named(directory: Path, tmp_path: Path) -> None:
    """Else transformers would fill the gap with random numbers."""
    tensors = load_file(directory / "model.safetensors")
    name = next(name for name in sorted(tensors) if "mlp" in name and name.endswith("weight"))
    del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_bytes((directory / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match=name.split(".mlp.")[-1]):
        open_runner(Checkpoint.open(tmp_path), dtype="float32")
