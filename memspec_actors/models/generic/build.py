"""Build a transformers model around tensors that are in memory already, or find out beforehand why that cannot be."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memspec_actors.errors import CheckpointError, first_line
from memspec_actors.models.checkpoints.checkpoint import Checkpoint

__all__ = ["build_model", "check_model", "stand_ins"]


def build_model(checkpoint: Checkpoint, dtype: torch.dtype, tensors: Mapping[str, Tensor]) -> Any:
    """Return a model that uses ``tensors`` in place.

    Raises CheckpointError, in one line, if transformers does not know the model, or a tensor is absent, of another
    shape, or one that the configuration leaves out.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    path = checkpoint.path
    with _quiet():
        try:
            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
            architecture: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
            model, report = architecture.from_pretrained(
                None,
                config=config,
                state_dict=dict(tensors),
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported below, by name
            )
        except Exception as error:  # a configuration of the wrong kind can end in anything
            reason = first_line(error)
            raise CheckpointError(f"{path}: transformers cannot build {checkpoint.architecture}: {reason}") from error
    _check_tensors(path, model, report)
    if getattr(model, "_is_stateful", False):
        raise CheckpointError(f"{path}: {checkpoint.architecture} keeps a state that cannot be rolled back")
    return model.eval()


def _check_tensors(path: Path, model: Any, report: Mapping[str, Any]) -> None:
    """Raise CheckpointError naming the first tensor that the model and its checkpoint disagree on."""
    for name, stored, expected in sorted(report["mismatched_keys"]):
        shapes = f"has shape {list(stored)}, the config asks for {list(expected)}"
        raise CheckpointError(f"{path}: tensor {name!r} {shapes}")
    for name in sorted(report["missing_keys"]):
        raise CheckpointError(f"{path}: tensor {name!r} is absent; the config asks for it")
    held = model.state_dict().keys()
    for name in sorted(report["unexpected_keys"]):
        module, _, kind = name.rpartition(".")
        if kind in ("weight", "bias") and held & {f"{module}.weight", f"{module}.bias"}:
            raise CheckpointError(f"{path}: tensor {name!r} has no place in the model that the config describes")


def stand_ins(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a tensor of each stored one's shape that takes the memory of a single number."""
    return {name: torch.zeros((), dtype=dtype).expand(entry.shape) for name, entry in checkpoint.weights().items()}


def check_model(checkpoint: Checkpoint, dtype: torch.dtype, *, in_place: bool) -> None:
    """Raise the CheckpointError that building would end in; with ``in_place``, also if the model needs copies.

    Takes no memory for the weights.
    """
    tensors = stand_ins(checkpoint, dtype)
    model = build_model(checkpoint, dtype, tensors)
    own = {tensor.data_ptr() for tensor in tensors.values()}
    copied = [name for name, parameter in model.named_parameters() if parameter.data_ptr() not in own]
    if in_place and copied:
        raise CheckpointError(
            f"{checkpoint.path}: {checkpoint.architecture} keeps {copied[0]!r} in another form than the file, outside "
            "of the memory for drafts; it can be a target, not a draft"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bar, for the weights are there already, and its report, for it becomes errors."""
    from transformers.utils import logging

    bar_was_on, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar_was_on:
            logging.enable_progress_bar()
