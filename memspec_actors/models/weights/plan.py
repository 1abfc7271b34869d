"""How a checkpoint is brought into memory: one pass over the file, then views; binding copies nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.errors import ConfigError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.dtypes import RUN_DTYPE_NAMES, DtypeName, RunDtypeName
from memspec_actors.models.kernels.int4 import int4_works
from memspec_actors.models.kernels.packing import MIN_PACKED_ITEMS, packing_pays
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.coding import coding_of
from memspec_actors.models.weights.layout import ALIGNMENT, Layout
from memspec_actors.models.weights.segments import CodeSlot, Segment, Slot
from memspec_actors.models.weights.typed_memory import RUN_DTYPES
from memspec_actors.models.weights.views import WeightViews

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
            from memspec_actors.models.generic.build import check_model  # brings transformers in

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
        if shape is None or not self._packs:
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
        shape, dtype = self.checkpoint.shape, RUN_DTYPES[self.dtype]
        views = WeightViews(view, self.slots, dtype, packs=self._packs)
        if shape is None:
            from memspec_actors.models.generic.runner import TransformersRunner

            stored = views.stored(self.checkpoint.weights())
            code_nbytes = sum(slot.nbytes for slot in self.slots.values() if isinstance(slot, CodeSlot))
            return TransformersRunner.bound(self.checkpoint, dtype, stored, views.coded(), code_nbytes)
        weights = views.model(shape)
        return LeanRunner(shape, dtype, weights, nbytes=self.nbytes + weights.extra_nbytes)

    @property
    def _packs(self) -> bool:
        return self.private and not self.on_device and self.dtype == "float32" and packing_pays()


def _check_runs_on_device(checkpoint: Checkpoint, dtype: DtypeName) -> None:
    if checkpoint.shape is None:
        raise ConfigError(
            f"{checkpoint.path}: {checkpoint.architecture} runs through transformers ({checkpoint.why_generic}), on "
            'the CPU only; set [target] device = "cpu", or choose another model'
        )
    if dtype in ("int8", "int4"):
        raise ConfigError(f'dtype is {dtype!r}, which runs on the CPU only; on a device use "bfloat16" or "float16"')
