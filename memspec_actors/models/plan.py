"""How a checkpoint is brought into memory: one pass over the file, then views; binding copies nothing."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from memspec_actors.models.architecture import DecoderShape, LayerNames
from memspec_actors.models.checkpoint import FLOAT_DTYPES, Checkpoint, DtypeName
from memspec_actors.models.head_norm import HeadNorm
from memspec_actors.models.heap import give_back_freed
from memspec_actors.models.layout import ALIGNMENT, RUN_DTYPE_NAMES, Layout, Segment, Slot
from memspec_actors.models.lean import LayerWeights, LeanRunner, ModelWeights
from memspec_actors.models.projection import MIN_PACKED_ITEMS, Projection, pack
from memspec_actors.models.runner import Runner

__all__ = ["ALIGNMENT", "TORCH_DTYPES", "LoadPlan"]

RUN_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "U16": torch.uint16,
    "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Say how a checkpoint's weights fill ``nbytes`` bytes of memory."""

    checkpoint: Checkpoint
    dtype: Literal["float32", "bfloat16"]
    nbytes: int
    segments: tuple[Segment, ...]
    slots: dict[str, Slot]  # by the name of the slot's first tensor
    private: bool

    @classmethod
    def of(cls, checkpoint: Checkpoint, dtype: DtypeName, *, private: bool = False) -> "LoadPlan":
        """Lay a checkpoint out. ``private`` memory is filled once and for all: it gets what is fastest to run.

        Raises CheckpointError if transformers, where it has to run the model, cannot.
        """
        run_dtype = checkpoint.run_dtype(dtype)
        if checkpoint.shape is None and checkpoint.files:
            from memspec_actors.models.generic_build import check_model  # brings transformers in

            check_model(checkpoint, RUN_DTYPES[run_dtype], in_place=not private)
        stored = {entry.dtype for entry in checkpoint.weights().values()}
        staged = private or stored != {RUN_DTYPE_NAMES[run_dtype]}
        layout = Layout(checkpoint, run_dtype, transposed=staged and run_dtype == "float32")
        layout.place_all()
        segments = sorted(layout.segments, key=lambda segment: (segment.entry.file, segment.entry.offset))
        return cls(
            checkpoint=checkpoint,
            dtype=run_dtype,
            nbytes=layout.nbytes,
            segments=tuple(segments),
            slots=layout.slots,
            private=private,
        )

    @property
    def path(self) -> str:
        """The model directory."""
        return str(self.checkpoint.path)

    @property
    def file_nbytes(self) -> int:
        """Bytes that a load reads."""
        return sum(segment.entry.nbytes for segment in self.segments)

    @property
    def packed_nbytes(self) -> int:
        """Bytes of the second copies that `bind` adds to private weights, on processors that have a use for them."""
        shape = self.checkpoint.shape
        if not self.private or shape is None or self.dtype != "float32":
            return 0
        only_looked_up = () if shape.tied else ("model.embed_tokens.weight",)
        linear = (slot for name, slot in self.slots.items() if not slot.vector and name not in only_looked_up)
        sizes = (slot.rows * slot.columns for slot in linear)
        return sum(size * RUN_DTYPES[self.dtype].itemsize for size in sizes if size >= MIN_PACKED_ITEMS)

    def bind(self, view: Tensor) -> Runner:
        """Return a runner whose weights are the loaded bytes of ``view`` (uint8, 1-D) themselves.

        Raises ValueError if the view is too small or not aligned.
        """
        if view.dtype != torch.uint8 or view.dim() != 1 or view.numel() < self.nbytes:
            raise ValueError(f"the view is {view.dtype} {tuple(view.shape)}; {self.nbytes} uint8 in one row are needed")
        if view.data_ptr() % ALIGNMENT:
            raise ValueError(f"the view starts at byte {view.data_ptr() % ALIGNMENT} of {ALIGNMENT}; align it")
        shape = self.checkpoint.shape
        if shape is None:
            from memspec_actors.models.generic import TransformersRunner

            return TransformersRunner.bound(self.checkpoint, RUN_DTYPES[self.dtype], self._stored_tensors(view))
        weights = self._weights(view, shape)
        return LeanRunner(shape, RUN_DTYPES[self.dtype], weights, nbytes=self.nbytes + weights.packed_nbytes)

    def _stored_tensors(self, view: Tensor) -> dict[str, Tensor]:
        tensors = {}
        for name, entry in self.checkpoint.weights().items():
            dtype = RUN_DTYPES[self.dtype] if entry.dtype in FLOAT_DTYPES else TORCH_DTYPES[entry.dtype]
            tensors[name] = self._tensor(view, name, dtype).reshape(entry.shape)
        return tensors

    def _weights(self, view: Tensor, shape: DecoderShape) -> ModelWeights:
        def get(name: str) -> Tensor:
            return self._tensor(view, f"{name}.weight", RUN_DTYPES[self.dtype])

        def linear(name: str) -> Projection:
            bias = self._tensor(view, f"{name}.bias", RUN_DTYPES[self.dtype]) if f"{name}.bias" in self.slots else None
            projection = Projection(get(name), bias)
            if not self.private:
                return projection
            packed = pack(projection)
            give_back_freed()  # oneDNN passes through copies; kept, they would add up to another half of the model
            return packed

        def qkv(names: LayerNames) -> Projection | HeadNorm:
            projection = linear(names["q_proj"])
            if not shape.qk_norm:
                return projection
            return HeadNorm(
                qkv=projection,
                q_weight=get(names["q_norm"]),
                k_weight=get(names["k_norm"]),
                q_size=shape.q_size,
                kv_size=shape.kv_size,
                eps=shape.rms_eps,
            )

        # The largest first: it is rearranged by way of a copy, for which there is room as long as the others wait.
        head = linear("model.embed_tokens" if shape.tied else "lm_head")
        layers = tuple(
            LayerWeights(
                input_norm=get(names["input_layernorm"]),
                qkv=qkv(names),
                out=linear(names["o_proj"]),
                post_norm=get(names["post_attention_layernorm"]),
                gate_up=linear(names["gate_proj"]),
                down=linear(names["down_proj"]),
            )
            for names in map(LayerNames, range(shape.num_layers))
        )
        return ModelWeights(
            embedding=get("model.embed_tokens").t(),
            layers=layers,
            norm=get("model.norm"),
            head=head,
        )

    def _tensor(self, view: Tensor, name: str, dtype: torch.dtype) -> Tensor:
        """Return a vector, or a weight as (in, out) whatever its order in memory."""
        slot = self.slots[name]
        size = slot.rows * slot.columns * dtype.itemsize
        flat = view[slot.offset : slot.offset + size].view(dtype)
        if slot.vector:
            return flat
        if slot.transposed:
            return flat.view(slot.columns, slot.rows)
        return flat.view(slot.rows, slot.columns).t()
