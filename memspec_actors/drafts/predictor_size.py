"""How much memory the ranking model takes."""

import math
from pathlib import Path
from typing import Any

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.header import read_header
from memspec_actors.models.checkpoints.model_json import read_json
from memspec_actors.predictor.ranker import predictor_directory

__all__ = ["predictor_bytes"]

FLOAT32_BYTES = 4


def predictor_bytes(path: str | None) -> int:
    """Return the bytes of what ``[predictor] path`` means, run in float32: from its files, or from its config.json.

    Raises CheckpointError if the directory has neither.
    """
    if path is None:
        return 0
    directory = predictor_directory(path)
    files = sorted(directory.glob("*.safetensors"))
    if files:
        headers = [read_header(file)[0] for file in files]
        return FLOAT32_BYTES * sum(math.prod(entry.shape) for header in headers for entry in header.values())
    return FLOAT32_BYTES * _num_parameters(directory / "config.json")


def _num_parameters(file: Path) -> int:
    import torch
    from transformers import AutoConfig, AutoModel

    config = read_json(file, dict[str, Any])
    try:
        with torch.device("meta"):
            return int(AutoModel.from_config(AutoConfig.for_model(**config)).num_parameters())
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{file}: is no encoder's configuration ({error}); give a predictor's directory"
        ) from error
