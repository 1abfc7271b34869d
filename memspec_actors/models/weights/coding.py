"""Find out what of a model becomes codes on loading."""

import torch

from memspec_actors.errors import ConfigError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.models.kernels.int4 import int4_works
from memspec_actors.models.kernels.int8 import int8_works
from memspec_actors.models.weights.layout import Coding
from memspec_actors.models.weights.typed_memory import RUN_DTYPES

__all__ = ["coding_of"]


def coding_of(checkpoint: Checkpoint, dtype: DtypeName) -> Coding:
    """Return what is quantised under a dtype.

    Raises ConfigError for "int8" or "int4" where torch cannot do that or the model has no layers for it.
    """
    if dtype not in ("int8", "int4"):
        return Coding()
    if not (int8_works() and (dtype == "int8" or int4_works())):
        raise ConfigError(f'dtype is {dtype!r}, but torch {torch.__version__} has no sound kernel; use "bfloat16"')
    if checkpoint.shape is not None:
        return Coding(dtype)
    from memspec_actors.models.generic.codes import find_quantisable  # brings transformers in

    names, head = find_quantisable(checkpoint, RUN_DTYPES[checkpoint.run_dtype(dtype)])
    if not names:
        raise ConfigError(
            f"{checkpoint.path}: dtype is {dtype!r}, but {checkpoint.architecture} has no layers that it could "
            'quantise; use "float32", "bfloat16" or "float16"'
        )
    return Coding(dtype, names, head)
