"""What a GPTQ checkpoint holds in place of a weight, and how its codes are to be read; needs no torch.

A weight (N out, K in) of 4 bits is stored as ``qweight`` int32 (K / 8, N), eight codes a word from the lowest bits up;
``qzeros`` int32 (G, N / 8), packed along N; ``scales`` (G, N); and ``g_idx`` int32 (K,), the group of each input. Then
weight[n, k] = scales[g_idx[k], n] * (code - zero). Format v1 stores every zero minus one (AutoGPTQ's qlinear modules).
Some versions store a ``bias`` (N,) for every weight, of zeros where the model has none.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.header import TensorEntry
from memspec_actors.models.dtypes import FLOAT_DTYPES

__all__ = ["CODES_PER_WORD", "GptqFormat", "GptqWeight", "check_gptq", "gptq_format", "gptq_names", "gptq_weight"]

CODES_PER_WORD = 8
ZERO_OFFSETS = {"gptq": 1, "gptq_v2": 0}
NEEDED, OPTIONAL = ("qweight", "qzeros", "scales"), ("g_idx", "bias")


class GptqFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Say how codes are read: ``group_size`` inputs share a scale, and zeros are stored minus ``zero_offset``.

    ``act_order``: the inputs of a group may lie anywhere.
    """

    group_size: int
    zero_offset: int
    act_order: bool

    def num_groups(self, columns: int) -> int:
        """Return how many groups a row of so many inputs has."""
        return -(-columns // self.group_size) if self.group_size > 0 else 1


class GptqWeight(msgspec.Struct, frozen=True, kw_only=True):
    """Locate the tensors that stand for one weight."""

    qweight: TensorEntry
    qzeros: TensorEntry
    scales: TensorEntry
    g_idx: TensorEntry | None

    @property
    def entries(self) -> tuple[TensorEntry, ...]:
        """All of them, in the order of the file."""
        present = [entry for entry in (self.qweight, self.qzeros, self.scales, self.g_idx) if entry is not None]
        return tuple(sorted(present, key=lambda entry: (entry.file, entry.offset)))


class _Fields(msgspec.Struct):
    """The keys that decide, as quantize_config.json and config.json's quantization_config share them."""

    bits: int
    group_size: int
    desc_act: bool = True  # where nothing is said, be ready for it
    quant_method: str = "gptq"
    checkpoint_format: str = "gptq"
    is_marlin_format: bool = False


def gptq_format(source: Path, fields: Any) -> GptqFormat:
    """Read a quantisation config; raises CheckpointError naming the file, the key and what can be read."""
    method = fields.get("quant_method", "gptq") if isinstance(fields, Mapping) else fields
    if method != "gptq":
        raise CheckpointError(
            f"{source}: the weights are quantised by {method!r}, and only 'gptq' is read; give the unquantised model"
        )
    try:
        parsed = msgspec.convert(fields, _Fields)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{source}: {error}; it must be what AutoGPTQ writes") from error
    if parsed.bits != 4:
        raise CheckpointError(f"{source}: bits is {parsed.bits}; GPTQ is read with 4 bits only")
    if parsed.is_marlin_format or parsed.checkpoint_format not in ZERO_OFFSETS:
        form = "marlin" if parsed.is_marlin_format else parsed.checkpoint_format
        raise CheckpointError(f"{source}: checkpoint_format is {form!r}; it must be 'gptq' or 'gptq_v2'")
    if parsed.group_size != -1 and parsed.group_size < 1:
        raise CheckpointError(f"{source}: group_size is {parsed.group_size}; it must be positive, or -1 for one group")
    return GptqFormat(
        group_size=parsed.group_size,
        zero_offset=ZERO_OFFSETS[parsed.checkpoint_format],
        act_order=parsed.desc_act,
    )


def gptq_names(name: str, tensors: Mapping[str, TensorEntry]) -> tuple[str, ...]:
    """Return the names of the tensors that stand for weight ``name``, or none if it is stored as it is."""
    base = name.removesuffix(".weight")
    if base == name or name in tensors or f"{base}.qweight" not in tensors:
        return ()
    optional = (f"{base}.{part}" for part in OPTIONAL)
    return (*(f"{base}.{part}" for part in NEEDED), *(part for part in optional if part in tensors))


def gptq_weight(name: str, tensors: Mapping[str, TensorEntry]) -> GptqWeight | None:
    """Locate what stands for weight ``name``, or return None if it is stored as it is."""
    found = {part.rsplit(".", 1)[1]: tensors[part] for part in gptq_names(name, tensors)}
    if not found:
        return None
    return GptqWeight(
        qweight=found["qweight"], qzeros=found["qzeros"], scales=found["scales"], g_idx=found.get("g_idx")
    )


def check_gptq(
    directory: Path, name: str, shape: tuple[int, ...], tensors: Mapping[str, TensorEntry], form: GptqFormat | None
) -> None:
    """Check all that stands for a weight of ``shape``; raises CheckpointError naming the tensor."""
    names = gptq_names(name, tensors)
    if form is None:
        raise CheckpointError(f"{directory}: tensor {names[0]!r} is quantised, but there is no quantize_config.json")
    rows, columns = shape
    if rows % CODES_PER_WORD or columns % CODES_PER_WORD:
        raise CheckpointError(f"{directory}: tensor {names[0]!r} cannot hold a weight of shape {list(shape)}")
    groups = form.num_groups(columns)
    expected: dict[str, tuple[int, ...]] = {
        "qweight": (columns // CODES_PER_WORD, rows),
        "qzeros": (groups, rows // CODES_PER_WORD),
        "scales": (groups, rows),
        "g_idx": (columns,),
        "bias": (rows,),
    }
    for part in names:
        entry, kind = tensors.get(part), part.rsplit(".", 1)[1]
        if entry is None:
            raise CheckpointError(f"{directory}: tensor {part!r} is absent; {names[0]!r} needs it")
        if entry.shape != expected[kind]:
            raise CheckpointError(
                f"{entry.file}: tensor {part!r} has shape {list(entry.shape)}, 4 bits in groups of {form.group_size} "
                f"ask for {list(expected[kind])}"
            )
        if (entry.dtype not in FLOAT_DTYPES) if kind in ("scales", "bias") else (entry.dtype != "I32"):
            raise CheckpointError(f"{entry.file}: tensor {part!r} is stored as {entry.dtype}, which GPTQ does not do")
