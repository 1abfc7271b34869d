"""Find the weights of a model directory: one safetensors file, or the shards that an index lists."""

from pathlib import Path

import msgspec

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.header import FileStamp, TensorEntry, read_header
from memspec_actors.models.checkpoints.model_json import read_json

__all__ = ["read_tensors"]

NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "gptq_model-*.safetensors.index.json",  # as AutoGPTQ writes them
    "gptq_model-*.safetensors",
)
OTHER_FORMATS = (("*.bin*", "pickled weights, which could run code"), ("*.gguf", "weights in GGUF's format"))


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def read_tensors(directory: Path) -> tuple[dict[str, TensorEntry], dict[Path, FileStamp]]:
    """Return every tensor by name, and the stamp of every file; raises CheckpointError naming the file at fault."""
    found = next((path for name in NAMES for path in sorted(directory.glob(name))), None)
    if found is None:
        _refuse_other_formats(directory)
    path = found or directory / NAMES[0]
    if path.suffix == ".json":
        return _read_shards(path)
    entries, stamp = read_header(path)
    return entries, {path: stamp}


def _read_shards(index_path: Path) -> tuple[dict[str, TensorEntry], dict[Path, FileStamp]]:
    weight_map = read_json(index_path, _Index).weight_map
    tensors: dict[str, TensorEntry] = {}
    files: dict[Path, FileStamp] = {}
    for shard in sorted(set(weight_map.values())):
        path = index_path.parent / shard
        if Path(shard).name != shard:
            raise CheckpointError(f"{index_path}: shard {shard!r} lies outside the directory")
        entries, files[path] = read_header(path)
        listed = [name for name, file in weight_map.items() if file == shard]
        for name in listed:
            if name not in entries:
                raise CheckpointError(f"{path}: tensor {name!r} is missing though {index_path.name} says it is here")
            tensors[name] = entries[name]
    return tensors, files


def _refuse_other_formats(directory: Path) -> None:
    for pattern, what in OTHER_FORMATS:
        found = next(iter(sorted(directory.glob(pattern))), None)
        if found is not None:
            raise CheckpointError(f"{found}: {what}; save the model again as safetensors, with save_pretrained")
