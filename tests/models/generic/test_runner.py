"""Any causal model of transformers runs behind the same interface, on the memory it was loaded into."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    GPTNeoXConfig,
    JambaConfig,
    MixtralConfig,
    Phi3Config,
)

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.generic.runner import TransformersRunner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.conftest import GENERIC, SHORT, SMALL, save_random


@pytest.fixture(scope="module", params=list(GENERIC))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp(request.param), GENERIC[request.param](), torch.float32)


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
    for num in (1, 7):
        last = runner.forward(IDS, runner.new_cache(40), logits_to_keep=num)
        torch.testing.assert_close(last, expected[-num:], atol=1e-4, rtol=1e-4)


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


def edited(directory: Path, to: Path, edit: Callable[[dict[str, Any]], None]) -> Checkpoint:
    """Return a copy of a checkpoint with its tensors edited."""
    tensors = load_file(directory / "model.safetensors")
    edit(tensors)
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    (to / "config.json").write_bytes((directory / "config.json").read_bytes())
    return Checkpoint.open(to)


def test_an_absent_tensor_is_named(directory: Path, tmp_path: Path) -> None:
    """Else transformers would fill the gap with random numbers."""
    name = next(name for name in load_file(directory / "model.safetensors") if "mlp" in name or "fc1" in name)
    checkpoint = edited(directory, tmp_path, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=re.escape(name)):
        LoadPlan.of(checkpoint, "float32")


@pytest.fixture(scope="module")
def neox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp("neox"), GENERIC["neox"](), torch.float32)


class TestRefusals:
    """Every one comes with the plan: before memory is taken."""

    def test_a_tensor_of_another_shape_is_named(self, neox: Path, tmp_path: Path) -> None:
        """Else transformers would ask to look at a table that it logs."""
        name = "gpt_neox.layers.0.mlp.dense_4h_to_h.weight"
        checkpoint = edited(neox, tmp_path, lambda tensors: tensors.update({name: torch.ones(32, 63)}))
        with pytest.raises(CheckpointError, match=r"dense_4h_to_h\.weight' has shape \[32, 63\].* \[32, 64\]"):
            LoadPlan.of(checkpoint, "float32")

    def test_a_bias_that_the_config_leaves_out_is_named(self, tmp_path: Path) -> None:
        """Else a model would run without a part of it."""
        source = save_random(
            tmp_path / "source", GPTNeoXConfig(**SMALL, intermediate_size=64, attention_bias=False), torch.float32
        )
        name = "gpt_neox.layers.0.attention.dense.bias"
        checkpoint = edited(source, tmp_path, lambda tensors: tensors.update({name: torch.ones(32)}))
        with pytest.raises(CheckpointError, match=r"attention\.dense\.bias' has no place"):
            LoadPlan.of(checkpoint, "float32")

    def test_buffers_that_old_versions_stored_do_no_harm(self, neox: Path, tmp_path: Path) -> None:
        """Else most published GPT-NeoX and GPT-2 checkpoints would be refused."""
        mask = {"gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 64, 64, dtype=torch.bool)}
        checkpoint = edited(neox, tmp_path, lambda tensors: tensors.update(mask))
        assert open_runner(checkpoint).forward([3], open_runner(checkpoint).new_cache(1)).shape == (1, 97)

    def test_a_model_with_a_state_is_refused(self, tmp_path: Path) -> None:
        """Else rejected tokens could not be taken back."""
        config = JambaConfig(**SHORT, num_key_value_heads=2, num_experts=2, use_mamba_kernels=False)
        checkpoint = Checkpoint.open(save_random(tmp_path, config, torch.float32))
        with pytest.raises(CheckpointError, match="JambaForCausalLM keeps a state"):
            LoadPlan.of(checkpoint, "float32")

    def test_an_unknown_model_is_refused_in_one_line(self, neox: Path, tmp_path: Path) -> None:
        """Else the user would get transformers' page of advice."""
        directory = Path(shutil.copytree(neox, tmp_path / "model"))
        fields = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps({**fields, "model_type": "unheard-of"}))
        with pytest.raises(
            CheckpointError, match=r"transformers cannot build GPTNeoXForCausalLM.*unheard-of"
        ) as caught:
            LoadPlan.of(Checkpoint.open(directory), "float32")
        assert "\n" not in str(caught.value)

    def test_code_in_a_model_directory_is_not_run(self, neox: Path, tmp_path: Path) -> None:
        """Else a downloaded draft could do whatever it likes, or the engine would wait for an answer at a prompt."""
        directory = Path(shutil.copytree(neox, tmp_path / "model"))
        fields = json.loads((directory / "config.json").read_text())
        fields.update(model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"})
        (directory / "config.json").write_text(json.dumps(fields))
        (directory / "own.py").write_text("raise SystemExit('was run')")
        with pytest.raises(CheckpointError, match="transformers cannot build"):
            LoadPlan.of(Checkpoint.open(directory), "float32")


def test_mixed_experts_can_be_a_target_but_not_a_draft(tmp_path: Path) -> None:
    """Else such a draft would live outside the memory budget; or the target would be refused for nothing."""
    config = MixtralConfig(**SHORT, num_key_value_heads=2, num_local_experts=4)
    directory = save_random(tmp_path, config, torch.float32)
    checkpoint = Checkpoint.open(directory)
    with pytest.raises(CheckpointError, match="it can be a target, not a draft"):
        LoadPlan.of(checkpoint, "float32")
    test_logits_equal_transformers(directory, open_runner(checkpoint))  # type: ignore[arg-type]


def test_a_checkpoint_of_the_body_alone_finds_its_head(tmp_path: Path) -> None:
    """Else GPT-2 as it is published, its names without prefix and its head tied, would be refused."""
    torch.manual_seed(0)
    AutoModel.from_config(GENERIC["gpt2"]()).save_pretrained(tmp_path)
    test_logits_equal_transformers(tmp_path, open_runner(Checkpoint.open(tmp_path)))  # type: ignore[arg-type]


def test_longrope_ends_where_its_angles_would_change(tmp_path: Path) -> None:
    """Else all cached keys of a long text would suddenly stand at other angles than its queries."""
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.5] * 6, "long_factor": [4.0] * 6}
    config = Phi3Config(
        **SHORT, num_key_value_heads=2, pad_token_id=0, original_max_position_embeddings=40, rope_parameters=rope
    )
    runner = open_runner(Checkpoint.open(save_random(tmp_path, config, torch.float32)))
    test_logits_equal_transformers(tmp_path, runner)  # type: ignore[arg-type]
    assert runner.max_positions == 40
