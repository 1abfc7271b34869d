"""A plan gives every tensor a place of its own, aligned, with what runs fused side by side."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.segments import FloatSegment
from tests.models.conftest import CONFIGS


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_slots_are_aligned_and_do_not_overlap(
    make_checkpoint: Callable[..., Path], kind: str, stored: torch.dtype
) -> None:
    """Else one weight would overwrite another."""
    checkpoint = Checkpoint.open(make_checkpoint(kind, stored))
    for dtype, item_bytes in (("float32", 4), ("bfloat16", 2)):
        plan = LoadPlan.of(checkpoint, dtype)  # type: ignore[arg-type]
        slots = sorted(plan.slots.values(), key=lambda slot: slot.offset)
        ends = [slot.offset + slot.rows * slot.columns * item_bytes for slot in slots]
        assert all(slot.offset % 64 == 0 for slot in slots)
        assert all(end <= slot.offset for end, (_, slot) in zip(ends, pairwise(slots), strict=False))
        assert ends[-1] <= plan.nbytes <= checkpoint.nbytes(dtype) + 64 * len(slots)  # type: ignore[arg-type]


def test_the_same_dtype_is_a_plain_read_in_file_order(make_checkpoint: Callable[..., Path]) -> None:
    """Else a load would pay for conversions or seeks that it does not need."""
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama")), "float32")
    assert all(isinstance(segment, FloatSegment) and segment.direct for segment in plan.segments)
    offsets = [segment.entries[0].offset for segment in plan.segments]
    assert offsets == sorted(offsets)


def test_a_tied_head_is_stored_once(make_checkpoint: Callable[..., Path]) -> None:
    """Else every small draft would take up to twice its size."""
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama-tied")), "float32")
    assert "lm_head.weight" not in plan.slots
    assert sum(segment.entries[0].shape == (97, 48) for segment in plan.segments) == 1


@pytest.mark.parametrize(
    "view",
    [
        torch.zeros(10, dtype=torch.uint8),
        torch.zeros(1 << 20, dtype=torch.int8),
        torch.zeros(1 << 19, 2, dtype=torch.uint8),
        torch.zeros(1 << 20, dtype=torch.uint8)[1:],
    ],
)
def test_unsuitable_memory_is_refused(make_checkpoint: Callable[..., Path], view: torch.Tensor) -> None:
    """Else a wrong slot would become a crash far away."""
    with pytest.raises(ValueError, match="view"):
        LoadPlan.of(Checkpoint.open(make_checkpoint("llama")), "float32").bind(view)


class TestArena:
    def test_views_are_the_same_memory(self) -> None:
        """Else what is loaded would not be what is run."""
        arena = WeightArena(256)
        arena.view(64, 64).fill_(7)
        whole = arena.view(0, 256)
        assert whole[64:128].eq(7).all()
        assert arena.nbytes == 256
        assert whole.data_ptr() % 64 == 0

    @pytest.mark.parametrize(("offset", "nbytes"), [(-1, 5), (0, 257), (250, 7), (5, -1)])
    def test_bytes_outside_are_refused(self, offset: int, nbytes: int) -> None:
        """Else a wrong placement would silently give less memory than asked for."""
        with pytest.raises(ValueError, match="arena"):
            WeightArena(256).view(offset, nbytes)

    def test_a_negative_size_is_refused(self) -> None:
        """Else a wrong budget would surface as torch's own error."""
        with pytest.raises(ValueError, match="nbytes"):
            WeightArena(-1)
