"""Tell from a config.json alone which tensors a checkpoint has, before anybody has fetched its weights.

A checkpoint in GPTQ's format stores a linear layer of K inputs and N outputs as ``qweight`` int32 (K * bits / 32, N),
``qzeros`` int32 (G, N * bits / 32), ``scales`` float16 (G, N) and ``g_idx`` int32 (K), for G groups of inputs;
embedding, output layer and norms stay as they are.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from memspec_actors.errors import CheckpointError
from memspec_actors.models.architecture import NotLean, decoder_shape, expected_tensors
from memspec_actors.models.header import ITEM_BYTES, TensorEntry

__all__ = ["describe_tensors"]

STORED = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}

Shapes = Mapping[str, tuple[int, ...]]


class _Gptq(msgspec.Struct):
    """The part of ``quantization_config`` that sizes depend on."""

    quant_method: str
    bits: int = 4
    group_size: int = 128


def describe_tensors(directory: Path, config: Mapping[str, Any]) -> dict[str, TensorEntry]:
    """Give every tensor that a config.json's contents ask for, as if it lay in ``directory``/model.safetensors.

    Raises CheckpointError if the sizes cannot be told: an unknown architecture, or another format than GPTQ's.
    """
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "float32").removeprefix("torch.")
    if dtype not in STORED:
        raise CheckpointError(f"{directory / 'config.json'}: torch_dtype is {dtype!r}; known are {', '.join(STORED)}")
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    shapes = _shapes(directory, plain)
    quantization = config.get("quantization_config")
    tensors = (
        ((name, STORED[dtype], shape) for name, shape in shapes.items())
        if not quantization
        else _quantised(shapes, _gptq(directory, quantization), STORED[dtype])
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
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{directory}: transformers cannot build a model from its config.json ({error})"
        ) from error
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}  # a tied one comes once


def _gptq(directory: Path, quantization: Any) -> _Gptq:
    try:
        parsed = msgspec.convert(quantization, _Gptq)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{directory / 'config.json'}: quantization_config: {error}") from error
    if (
        parsed.quant_method != "gptq"
        or parsed.bits not in (2, 4, 8)
        or not (parsed.group_size > 0 or parsed.group_size == -1)
    ):
        raise CheckpointError(
            f"{directory / 'config.json'}: quantization_config is {parsed.quant_method} of {parsed.bits} bits in "
            f'groups of {parsed.group_size}; sizes are known for "gptq" of 2, 4 or 8 bits'
        )
    return parsed


def _quantised(shapes: Shapes, gptq: _Gptq, dtype: str) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for name, shape in shapes.items():
        if ".layers." not in name or not name.endswith("proj.weight"):
            yield name, dtype, shape
            continue
        layer, (outputs, inputs) = name.removesuffix(".weight"), shape
        groups = 1 if gptq.group_size == -1 else -(-inputs // gptq.group_size)
        yield f"{layer}.qweight", "I32", (inputs * gptq.bits // 32, outputs)
        yield f"{layer}.qzeros", "I32", (groups, outputs * gptq.bits // 32)
        yield f"{layer}.scales", "F16", (groups, outputs)
        yield f"{layer}.g_idx", "I32", (inputs,)
