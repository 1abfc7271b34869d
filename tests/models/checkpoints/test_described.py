"""A configuration alone tells the sizes that a download would bring."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPTNeoXConfig

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.conftest import CONFIGS, save_random


def config_alone(directory: Path, out: Path, **changes: Any) -> Path:
    """Copy a checkpoint's config.json and nothing else."""
    fields = json.loads((directory / "config.json").read_text()) | changes
    (out / "config.json").write_text(json.dumps(fields))
    return out


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_is_described_is_what_transformers_saves(
    make_checkpoint: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    """A memory plan made before the download would not hold after it."""
    directory = make_checkpoint(kind, torch.bfloat16)
    saved, described = Checkpoint.open(directory), Checkpoint.describe(config_alone(directory, tmp_path))
    assert {name: (entry.shape, entry.dtype, entry.nbytes) for name, entry in described.tensors.items()} == {
        name: (entry.shape, entry.dtype, entry.nbytes) for name, entry in saved.tensors.items()
    }
    assert described.files == {}
    assert LoadPlan.of(described, "float32").nbytes == LoadPlan.of(saved, "float32").nbytes


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=97, n_positions=64),
        GPTNeoXConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            vocab_size=97,
            max_position_embeddings=64,
        ),
    ],
    ids=lambda config: config.model_type,
)
def test_other_families_are_described_by_transformers(tmp_path: Path, config: Any) -> None:
    """Drafts of other families could only be planned for after their download."""
    saved = Checkpoint.open(save_random(tmp_path / "saved", config, torch.float32))
    shutil.copytree(tmp_path / "saved", tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    described = Checkpoint.describe(tmp_path / "bare")
    assert sum(entry.nbytes for entry in described.tensors.values()) == sum(
        entry.nbytes for entry in saved.tensors.values()
    )


def test_a_gptq_checkpoint_has_the_published_layout(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """Sizes that leave out scales, zeros or the unquantised ends would promise room that is not there."""
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": True}
    directory = config_alone(
        make_checkpoint("qwen2"), tmp_path, quantization_config=quantization, torch_dtype="float16", dtype="float16"
    )
    entries = Checkpoint.describe(directory).tensors
    down = "model.layers.1.mlp.down_proj."  # 80 inputs, 48 outputs, 5 groups
    assert {name.removeprefix(down): (e.dtype, e.shape) for name, e in entries.items() if name.startswith(down)} == {
        "qweight": ("I32", (10, 48)),
        "qzeros": ("I32", (5, 6)),
        "scales": ("F16", (5, 48)),
        "g_idx": ("I32", (80,)),
    }
    assert entries["model.embed_tokens.weight"].nbytes == 97 * 48 * 2
    assert entries["model.layers.0.self_attn.q_proj.bias"].shape == (48,)
    assert "lm_head.weight" not in entries  # tied


def test_one_group_over_all_inputs(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": -1}
    directory = config_alone(make_checkpoint("llama"), tmp_path, quantization_config=quantization)
    entries = Checkpoint.describe(directory).tensors
    assert entries["model.layers.0.self_attn.k_proj.scales"].shape == (1, 24)
    assert entries["model.layers.0.self_attn.k_proj.qweight"].shape == (6, 24)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "awq"),
        ({"quantization_config": {"bits": 4}}, "group_size"),
        ({"torch_dtype": "float8", "dtype": "float8"}, "'float8'"),
        ({"architectures": ["Unheard"], "model_type": "unheard"}, "unheard"),
    ],
)
def test_what_cannot_be_told_is_refused(
    make_checkpoint: Callable[..., Path], tmp_path: Path, changes: dict[str, Any], names: str
) -> None:
    """A guess at the size of an unknown format would be believed."""
    with pytest.raises(CheckpointError, match=names):
        Checkpoint.describe(config_alone(make_checkpoint("llama"), tmp_path, **changes))
