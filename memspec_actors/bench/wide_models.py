"""Random models of a size that a GPU is made for, to measure what does not depend on what they say."""

import json
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file

from memspec_actors.models.checkpoints.architecture import decoder_shape, expected_tensors
from memspec_actors.zoo import path as zoo_path

__all__ = ["write_wide"]

SIZES = {"target": (2048, 5632, 16, 32, 8), "draft": (1024, 2816, 12, 16, 4)}
NAMES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def write_wide(kind: Literal["target", "draft"], directory: Path) -> Path:
    """Write a model with the embedded tokenizer to ``directory / kind``; the target takes 1.5 GB, a draft 0.3."""
    source, directory = zoo_path("target"), directory / kind
    fields = json.loads((source / "config.json").read_text()) | dict(zip(NAMES, SIZES[kind], strict=True))
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(fields))
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (directory / file).write_bytes((source / file).read_bytes())
    shapes = expected_tensors(decoder_shape(fields))
    tensors = {name: torch.randn(size).mul_(0.02 if len(size) > 1 else 1.0).bfloat16() for name, size in shapes.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return directory
