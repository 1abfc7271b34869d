"""Tell from a config.json alone which tensors a checkpoint has, before anybody has fetched its weights.

A checkpoint in GPTQ's format stores a linear layer of K inputs and N outputs as ``qweight`` int32 (K * bits / 32, N),
``qzeros`` int32 (G, N * bits / 32), ``scales`` float16 (G, N) and ``g_idx`` int32 (K), for G groups of inputs;
embedding, output layer and norms stay as they are.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.architecture import NotLean, decoder_shape, expected_tensors
from memspec_actors.models.checkpoints.gptq import CODES_PER_WORD, GptqFormat
from memspec_actors.models.checkpoints.header import ITEM_BYTES, TensorEntry

__all__ = ["describe_tensors"]

STORED = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}

Shapes = Mapping[str, tuple[int, ...]]


def describe_tensors(directory: Path, config: Mapping[str, Any], gptq: GptqFormat | None) -> dict[str, TensorEntry]:
    """Give every tensor that a config.json's contents ask for, as if it lay in ``directory``/model.safetensors.

    Raises CheckpointError if the sizes cannot be told: an unknown architecture, or another format than GPTQ's.
    """
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "float32").removeprefix("torch.")
    if dtype not in STORED:
        raise CheckpointError(f"{directory / 'config.json'}: torch_dtype is {dtype!r}; known are {', '.join(STORED)}")
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    shapes = _shapes(directory, plain)
    tensors = (
        ((name, STORED[dtype], shape) for name, shape in shapes.items())
        if gptq is None
        else _quantised(shapes, gptq, STORED[dtype])
    )
    file = directory / "model.safetensors"
    return {
        name: TensorEntry(file, 0, math.prod(shape) * ITEM_BYTES[kind], kind, shape) for name, kind, shape in tensors
    }


def _shapes(directory: Path, config: Mapping[str, Any]) -> Shapes:
    try:
        return expected_tensors(decoder_shape(config))
    except NotLean:
        return _shapes_by_transformers(directory, config)


def _shapes_by_transformers(directory: Path, config: Mapping[str, Any]) -> Shapes:
    """Let transformers build the model without memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    except Exception as error:  # a configuration of the wrong kind can end in anything
        raise CheckpointError(
            f"{directory}: transformers cannot build a model from its config.json ({error})"
        ) from error
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}  # a tied one comes once


def _quantised(shapes: Shapes, gptq: GptqFormat, dtype: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for name, shape in shapes.items():
        if ".layers." not in name or not name.endswith("proj.weight"):
            yield name, dtype, shape
            continue
        layer, (outputs, inputs) = name.removesuffix(".weight"), shape
        groups = gptq.num_groups(inputs)
        yield f"{layer}.qweight", "I32", (inputs // CODES_PER_WORD, outputs)
        yield f"{layer}.qzeros", "I32", (groups, outputs // CODES_PER_WORD)
        yield f"{layer}.scales", "F16", (groups, outputs)
        yield f"{layer}.g_idx", "I32", (inputs,)
