"""How a checkpoint is brought into memory: one pass over the file, then views; binding copies nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.errors import ConfigError
from memspec_actors.models.architecture import DecoderShape, LayerNames
from memspec_actors.models.checkpoint import Checkpoint
from memspec_actors.models.code_memory import CodeMemory
from memspec_actors.models.coding import coding_of
from memspec_actors.models.dtypes import FLOAT_DTYPES, RUN_DTYPE_NAMES, DtypeName, RunDtypeName
from memspec_actors.models.heap import give_back_freed
from memspec_actors.models.int4 import int4_works
from memspec_actors.models.layout import ALIGNMENT, Layout
from memspec_actors.models.lean import LeanRunner
from memspec_actors.models.lean_weights import LayerWeights, ModelWeights
from memspec_actors.models.linear import LinearMap, WeightPart
from memspec_actors.models.packing import MIN_PACKED_ITEMS, pack, packing_pays
from memspec_actors.models.runner import Runner
from memspec_actors.models.segments import CodeSlot, Segment, Slot
from memspec_actors.models.typed_memory import RUN_DTYPES, TORCH_DTYPES, matrix

__all__ = ["ALIGNMENT", "LoadPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Say how a checkpoint's weights fill ``nbytes`` bytes of memory: the host's, or a device's (``on_device``)."""

    checkpoint: Checkpoint
    dtype: RunDtypeName
    nbytes: int
    segments: tuple[Segment, ...]
    slots: dict[str, Slot | CodeSlot]  # by the name of the slot's first tensor
    private: bool
    on_device: bool

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, dtype: DtypeName, *, private: bool = False, on_device: bool = False
    ) -> "LoadPlan":
        """Lay a checkpoint out. ``private`` memory is filled once and for all: it gets what is fastest to run.

        GPTQ weights stay codes where torch's kernel works, whatever the dtype of the rest, but on devices, where they
        are dequantised. Raises ConfigError for "int8" or "int4" where torch cannot do that or the model has no layers
        for it, CheckpointError if transformers, where it has to run the model, cannot.
        """
        run_dtype = checkpoint.run_dtype(dtype)
        if on_device:
            _check_runs_on_device(checkpoint, dtype)
        if checkpoint.shape is None and checkpoint.files:
            from memspec_actors.models.generic_build import check_model  # brings transformers in

            check_model(checkpoint, RUN_DTYPES[run_dtype], in_place=not private)
        stored = {entry.dtype for entry in checkpoint.weights().values()}
        staged = private or stored != {RUN_DTYPE_NAMES[run_dtype]}
        layout = Layout(
            checkpoint,
            run_dtype,
            transposed=staged and run_dtype == "float32" and not on_device,
            coding=coding_of(checkpoint, dtype),
            packed=checkpoint.gptq is not None and not on_device and int4_works(),
        )
        layout.place_all()
        first = ((segment, segment.entries[0]) for segment in layout.segments)
        segments = [segment for segment, entry in sorted(first, key=lambda pair: (pair[1].file, pair[1].offset))]
        return cls(
            checkpoint=checkpoint,
            dtype=run_dtype,
            nbytes=layout.nbytes,
            segments=tuple(segments),
            slots=layout.slots,
            private=private,
            on_device=on_device,
        )

    @property
    def path(self) -> str:
        """The model directory."""
        return str(self.checkpoint.path)

    @property
    def file_nbytes(self) -> int:
        """Bytes that a load reads."""
        return sum(entry.nbytes for segment in self.segments for entry in segment.entries)

    @property
    def weight_format(self) -> str:
        """What the weights are held in: the run dtype, beside codes where there are any."""
        groups = {slot.group for slot in self.slots.values() if isinstance(slot, CodeSlot)}
        codes = ["int8"] * (0 in groups) + ["int4"] * bool(groups - {0})
        return " + ".join((*codes, self.dtype))

    @property
    def packed_nbytes(self) -> int:
        """Bytes of the second copies that `bind` adds to private weights, on processors that have a use for them."""
        shape = self.checkpoint.shape
        if not self._packs or shape is None or self.dtype != "float32" or not packing_pays():
            return 0
        only_looked_up = () if shape.tied else ("model.embed_tokens.weight",)
        floats = (each for name, each in self.slots.items() if isinstance(each, Slot) and name not in only_looked_up)
        sizes = (slot.rows * slot.columns for slot in floats if not slot.vector)
        return sum(size * RUN_DTYPES[self.dtype].itemsize for size in sizes if size >= MIN_PACKED_ITEMS)

    def bind(self, view: Tensor) -> Runner:
        """Return a runner whose weights are the loaded bytes of ``view`` (uint8, 1-D) themselves.

        Raises ValueError if the view is too small or not aligned.
        """
        if view.dtype != torch.uint8 or view.dim() != 1 or view.numel() < self.nbytes:
            raise ValueError(f"the view is {view.dtype} {tuple(view.shape)}; {self.nbytes} uint8 in one row are needed")
        address = view.storage_offset() if self.on_device else view.data_ptr()  # what begins a device's memory is
        if address % ALIGNMENT:
            raise ValueError(f"the view starts at byte {address % ALIGNMENT} of {ALIGNMENT}; align it")
        shape = self.checkpoint.shape
        if shape is None:
            from memspec_actors.models.generic import TransformersRunner

            coded = {name: slot for name, slot in self.slots.items() if isinstance(slot, CodeSlot)}
            return TransformersRunner.bound(
                self.checkpoint,
                RUN_DTYPES[self.dtype],
                self._stored_tensors(view),
                {name: CodeMemory.of(view, slot).part() for name, slot in coded.items()},
                sum(slot.nbytes for slot in coded.values()),
            )
        weights = self._weights(view, shape)
        return LeanRunner(shape, RUN_DTYPES[self.dtype], weights, nbytes=self.nbytes + weights.extra_nbytes)

    def _stored_tensors(self, view: Tensor) -> dict[str, Tensor]:
        tensors = {}
        for name, entry in self.checkpoint.weights().items():
            if isinstance(self.slots[name], CodeSlot):
                continue
            dtype = RUN_DTYPES[self.dtype] if entry.dtype in FLOAT_DTYPES else TORCH_DTYPES[entry.dtype]
            tensors[name] = self._tensor(view, name, dtype).reshape(entry.shape)
        return tensors

    def _weights(self, view: Tensor, shape: DecoderShape) -> ModelWeights:
        def get(name: str) -> Tensor:
            return self._tensor(view, f"{name}.weight", RUN_DTYPES[self.dtype])

        def linear(*names: str) -> LinearMap:
            bias = f"{names[0]}.bias"
            added = self._tensor(view, bias, RUN_DTYPES[self.dtype]) if bias in self.slots else None
            parts = [self._part(view, f"{name}.weight") for name in names if f"{name}.weight" in self.slots]
            return LinearMap(parts, added)

        # The largest first: it is rearranged by way of a copy, for which there is room as long as the others wait.
        head = linear("model.embed_tokens" if shape.tied else "lm_head")
        layers = [
            LayerWeights(
                input_norm=get(names["input_layernorm"]),
                qkv=linear(names["q_proj"], names["k_proj"], names["v_proj"]),
                q_norm=get(names["q_norm"]) if shape.qk_norm else None,
                k_norm=get(names["k_norm"]) if shape.qk_norm else None,
                out=linear(names["o_proj"]),
                post_norm=get(names["post_attention_layernorm"]),
                gate_up=linear(names["gate_proj"], names["up_proj"]),
                down=linear(names["down_proj"]),
            )
            for names in map(LayerNames, range(shape.num_layers))
        ]
        return ModelWeights(
            embedding=get("model.embed_tokens").t(),
            layers=layers,
            norm=get("model.norm"),
            head=head,
        )

    def _part(self, view: Tensor, name: str) -> WeightPart:
        slot = self.slots[name]
        if isinstance(slot, CodeSlot):
            return CodeMemory.of(view, slot).part()
        part = WeightPart(self._tensor(view, name, RUN_DTYPES[self.dtype]))
        if not self._packs or not packing_pays():
            return part
        packed = pack(part)
        give_back_freed()  # oneDNN passes through copies; kept, they would add up to another half of the model
        return packed

    @property
    def _packs(self) -> bool:
        return self.private and not self.on_device

    def _tensor(self, view: Tensor, name: str, dtype: torch.dtype) -> Tensor:
        """Return a vector, or a weight as (in, out) whatever its order in memory."""
        slot = self.slots[name]
        assert isinstance(slot, Slot), f"{name} is in codes"
        lying = matrix(view, slot.offset, slot.rows, slot.columns, dtype, transposed=slot.transposed)
        return lying.flatten() if slot.vector else lying.t()


def _check_runs_on_device(checkpoint: Checkpoint, dtype: DtypeName) -> None:
    if checkpoint.shape is None:
        raise ConfigError(
            f"{checkpoint.path}: {checkpoint.architecture} runs through transformers ({checkpoint.why_generic}), on "
            'the CPU only; set [target] device = "cpu", or choose another model'
        )
    if dtype in ("int8", "int4"):
        raise ConfigError(f'dtype is {dtype!r}, which runs on the CPU only; on a device use "bfloat16" or "float16"')
