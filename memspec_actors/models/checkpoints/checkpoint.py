"""Open a Hugging Face model directory: its configuration and where its tensors lie. Reads no weights; torch-free."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.architecture import DecoderShape, NotLean, decoder_shape, expected_tensors
from memspec_actors.models.checkpoints.gptq import GptqFormat, check_gptq, gptq_format, gptq_names
from memspec_actors.models.checkpoints.header import ITEM_BYTES, FileStamp, TensorEntry
from memspec_actors.models.checkpoints.model_json import read_json
from memspec_actors.models.checkpoints.weight_files import read_tensors
from memspec_actors.models.dtypes import FLOAT_DTYPES, RUN_DTYPE_NAMES, DtypeName, RunDtypeName

__all__ = ["Checkpoint"]


class _Kinds(msgspec.Struct):
    """What every reader of a config.json takes for granted; each looks at the values that it needs."""

    architectures: list[str] | None = None
    model_type: str | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a validated model directory.

    ``shape`` is None where only the generic runner can run it, and ``why_generic`` then says why.
    ``gptq`` says how quantised weights are read, where there may be any.
    ``files`` maps each weight file to the stamp it had, so that a load notices that it was replaced; it is empty where
    only the configuration is there, and ``tensors`` then are those that it asks for.
    """

    path: Path
    config: Mapping[str, Any]
    architecture: str
    shape: DecoderShape | None
    why_generic: str
    gptq: GptqFormat | None
    tensors: Mapping[str, TensorEntry]
    files: Mapping[Path, FileStamp]
    eos_ids: tuple[int, ...]
    bos_id: int | None
    max_positions: int
    vocab_size: int

    @classmethod
    def open(cls, path: str | Path) -> "Checkpoint":
        """Read and check a model directory; raises CheckpointError naming the file and what is wrong with it."""
        directory = Path(path)
        config = _read_config(directory)
        return cls._of(directory, config, _quantisation(directory, config), *read_tensors(directory))

    @classmethod
    def describe(cls, path: str | Path) -> "Checkpoint":
        """Read a model directory's configuration alone, to tell sizes by: nothing can be loaded from the result.

        Raises CheckpointError naming the file and what is wrong with it.
        """
        from memspec_actors.models.checkpoints.described import describe_tensors

        directory = Path(path)
        config = _read_config(directory)
        gptq = _quantisation(directory, config)
        return cls._of(directory, config, gptq, describe_tensors(directory, config, gptq), {})

    @classmethod
    def _of(
        cls,
        directory: Path,
        config: Mapping[str, Any],
        gptq: GptqFormat | None,
        tensors: dict[str, TensorEntry],
        files: dict[Path, FileStamp],
    ) -> "Checkpoint":
        generation_path = directory / "generation_config.json"
        generation = read_json(generation_path, dict[str, Any]) if generation_path.exists() else {}
        shape, why_generic = _lean(config)
        if shape is not None:
            _check_tensors(directory, shape, tensors, gptq)
        elif gptq is not None:
            raise CheckpointError(
                f"{directory}: it is quantised by GPTQ and {why_generic}, which only runs unquantised; give floats"
            )
        return cls(
            path=directory,
            config=config,
            architecture=(config.get("architectures") or ["unknown"])[0],
            shape=shape,
            why_generic=why_generic,
            gptq=gptq,
            tensors=tensors,
            files=files,
            eos_ids=_token_ids(directory, "eos_token_id", generation, config),
            bos_id=next(iter(_token_ids(directory, "bos_token_id", generation, config)), None),
            max_positions=_max_positions(directory, config),
            vocab_size=_size(directory, config, "vocab_size"),
        )

    def run_dtype(self, dtype: DtypeName) -> RunDtypeName:
        """Return the dtype of all that is not quantised: of activations, keys and values, norms and embeddings.

        "auto" is bfloat16 where the weights are stored in two bytes each, else float32; beside codes it is bfloat16.
        """
        if dtype == "int8" or dtype == "int4":
            return "bfloat16"
        if dtype != "auto":
            return dtype
        matrices = (entry.dtype for entry in self.tensors.values() if len(entry.shape) > 1)
        return "bfloat16" if all(each in ("BF16", "F16") for each in matrices if each in FLOAT_DTYPES) else "float32"

    def nbytes(self, dtype: RunDtypeName) -> int:
        """Return the bytes of all weights in a run dtype, a tied head counted once, without alignment."""
        item_bytes = ITEM_BYTES[RUN_DTYPE_NAMES[dtype]]
        return sum(
            math.prod(entry.shape) * item_bytes if entry.dtype in FLOAT_DTYPES else entry.nbytes
            for entry in self.weights().values()
        )

    def require_floats(self) -> None:
        """Raise CheckpointError if weights are codes, which can be run, but not trained or quantised."""
        if any(name.endswith(".qweight") for name in self.tensors):
            raise CheckpointError(f"{self.path}: its weights are GPTQ's codes, only to be run; give unquantised ones")

    def weights(self) -> Mapping[str, TensorEntry]:
        """Return the tensors that a run needs: without what a tied or computed part left in the file."""
        if self.shape is None:
            return self.tensors
        stored = (gptq_names(name, self.tensors) or (name,) for name in expected_tensors(self.shape))
        return {name: self.tensors[name] for names in stored for name in names}


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    config = read_json(path, dict[str, Any])
    try:
        msgspec.convert(config, _Kinds)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path}: {error}; fetch the file again") from error
    return config


def _lean(config: Mapping[str, Any]) -> tuple[DecoderShape | None, str]:
    try:
        return decoder_shape(config), ""
    except NotLean as reason:
        return None, str(reason)


def _quantisation(directory: Path, config: Mapping[str, Any]) -> GptqFormat | None:
    own = directory / "quantize_config.json"
    if own.exists():
        return gptq_format(own, read_json(own, dict[str, Any]))
    fields = config.get("quantization_config")
    return gptq_format(directory / "config.json", fields) if fields else None


def _check_tensors(
    directory: Path, shape: DecoderShape, tensors: Mapping[str, TensorEntry], gptq: GptqFormat | None
) -> None:
    asked = expected_tensors(shape)
    layers = tuple(f"model.layers.{index}." for index in range(shape.num_layers))
    used = set(asked)
    for name, expected in asked.items():
        if parts := gptq_names(name, tensors):
            check_gptq(directory, name, expected, tensors, gptq)
            used.update(parts)
            continue
        entry = tensors.get(name)
        if entry is None:
            raise CheckpointError(f"{directory}: tensor {name!r} is absent; the config asks for it")
        if entry.shape != expected:
            raise CheckpointError(
                f"{entry.file}: tensor {name!r} has shape {list(entry.shape)}, the config asks for {list(expected)}"
            )
        if entry.dtype not in FLOAT_DTYPES:
            raise CheckpointError(f"{entry.file}: tensor {name!r} is stored as {entry.dtype}, not as a float")
    for name, entry in tensors.items():
        if name.startswith(layers) and name.endswith((".weight", ".bias")) and name not in used:
            raise CheckpointError(f"{entry.file}: tensor {name!r} has no place in the model that the config describes")


def _token_ids(directory: Path, key: str, *sources: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ids under a key of the first source that has it: an int or a list of them."""
    value = next((source[key] for source in sources if source.get(key) is not None), ())
    ids = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, int) and item >= 0 for item in ids):
        raise CheckpointError(f"{directory}: {key} is {value!r}; it must be a token id or a list of them")
    return tuple(ids)


def _max_positions(directory: Path, config: Mapping[str, Any]) -> int:
    """Return the longest text. LongRoPE turns all positions otherwise beyond the original one, cached keys too."""
    longest = _size(directory, config, "max_position_embeddings", "n_positions", "max_seq_len")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if "longrope" not in (rope.get("rope_type"), rope.get("type")):
        return longest
    original = config.get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
    return min(longest, original or longest)


def _size(directory: Path, config: Mapping[str, Any], *keys: str) -> int:
    value = next((config[key] for key in keys if config.get(key) is not None), None)
    if not isinstance(value, int) or value < 1:
        raise CheckpointError(f"{directory / 'config.json'}: {keys[0]} is {value!r}; it must be a positive integer")
    return value
