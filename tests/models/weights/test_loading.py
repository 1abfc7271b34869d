"""A load puts every weight where its plan says, and fails or stops cleanly at any point."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from memspec_actors.errors import LoadError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.weights.loading import LoadReport, Throttle, load_into
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.segments import Slot
from tests.models.conftest import CONFIGS, save_random

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def filled(plan: LoadPlan, **options: object) -> tuple[Tensor, LoadReport]:
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    return memory, load_into(plan, memory, **options)  # type: ignore[arg-type]


def num_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fused(stored: dict[str, Tensor], name: str) -> Tensor:
    """Return what should lie in the slot that begins with tensor ``name``."""
    for first, others in (("q_proj", ("k_proj", "v_proj")), ("gate_proj", ("up_proj",))):
        if first in name:
            return torch.cat([stored[name], *(stored[name.replace(first, other)] for other in others)])
    return stored[name]


def check_memory(plan: LoadPlan, memory: Tensor, directory: Path) -> None:
    stored: dict[str, Tensor] = {}
    for file in directory.glob("*.safetensors"):
        stored.update(load_file(file))
    dtype = DTYPES[plan.dtype]
    for name, slot in plan.slots.items():
        assert isinstance(slot, Slot)
        expected = fused(stored, name).to(dtype)
        flat = memory[slot.offset : slot.offset + expected.nbytes].view(dtype)
        got = flat.view(slot.columns, slot.rows).t() if slot.transposed else flat.view(expected.shape)
        assert torch.equal(got, expected), name


@pytest.mark.parametrize("kind", ["llama", "llama-tied", "llama-bias", "qwen2", "qwen3"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_weight_arrives(make_checkpoint: Callable[..., Path], kind: str, stored: torch.dtype, dtype: str) -> None:
    """Else a model would run with wrong weights and merely seem a poor draft."""
    directory = make_checkpoint(kind, stored)
    for private in (False, True):
        plan = LoadPlan.of(Checkpoint.open(directory), dtype, private=private)  # type: ignore[arg-type]
        memory, report = filled(plan)
        check_memory(plan, memory, directory)
        assert (report.nbytes, report.cancelled, report.emulated) == (plan.file_nbytes, False, False)


@settings(max_examples=20)
@given(chunk_bytes=st.integers(1, 5000), stored=st.sampled_from([torch.float32, torch.bfloat16]))
def test_the_chunk_size_does_not_matter(
    make_checkpoint: Callable[..., Path], chunk_bytes: int, stored: torch.dtype
) -> None:
    """Else weights at a chunk's edge would be lost for some sizes."""
    directory = make_checkpoint("qwen2", stored)
    plan = LoadPlan.of(Checkpoint.open(directory), "float32")
    memory, _ = filled(plan, chunk_bytes=chunk_bytes)
    check_memory(plan, memory, directory)


def test_shards_are_read_like_one_file(tmp_path: Path) -> None:
    """Else large models would lose the tensors of all shards but one."""
    directory = save_random(tmp_path / "model", CONFIGS["llama"](), torch.float32, max_shard_size="40KB")
    plan = LoadPlan.of(Checkpoint.open(directory), "float32")
    memory, _ = filled(plan)
    check_memory(plan, memory, directory)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_load_stops_at_every_chunk_when_cancelled(make_checkpoint: Callable[..., Path], stored: torch.dtype) -> None:
    """Else a load that nobody wants any more would keep storage and memory busy."""
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama", stored)), "float32")
    counts: list[int] = []
    filled(plan, chunk_bytes=4096, progress=lambda done, total: counts.append(done))
    for stop in range(len(counts)):
        asked = iter(range(len(counts) + 1))
        _, report = filled(plan, chunk_bytes=4096, cancelled=lambda asked=asked, stop=stop: next(asked) >= stop)
        assert report.cancelled
        assert report.nbytes == (counts[stop - 1] if stop else 0)


def test_progress_counts_up_to_the_total(make_checkpoint: Callable[..., Path]) -> None:
    """Else a progress bar would run backwards or never fill."""
    directory = make_checkpoint("llama")
    plan = LoadPlan.of(Checkpoint.open(directory), "float32")
    seen: list[tuple[int, int]] = []
    filled(plan, chunk_bytes=5000, progress=lambda done, total: seen.append((done, total)))
    total = sum(tensor.nbytes for tensor in load_file(directory / "model.safetensors").values())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)
    assert {whole for _, whole in seen} == {total}


class TestFailures:
    @pytest.fixture
    def plan(self, make_checkpoint: Callable[..., Path], tmp_path: Path) -> LoadPlan:
        directory = shutil.copytree(make_checkpoint("llama"), tmp_path / "model")
        return LoadPlan.of(Checkpoint.open(directory), "float32")

    @pytest.fixture
    def file(self, plan: LoadPlan) -> Path:
        return Path(plan.path) / "model.safetensors"

    def test_a_file_gone_since_the_check_is_named(self, plan: LoadPlan, file: Path) -> None:
        """Else the draft's failure would not say which file to restore."""
        file.unlink()
        with pytest.raises(LoadError, match=r"model\.safetensors: cannot be read"):
            filled(plan)

    @pytest.mark.parametrize("cut", [1, 100, 10_000, 10**9])
    def test_a_file_truncated_since_the_check_is_named(self, plan: LoadPlan, file: Path, cut: int) -> None:
        """Else half a draft would be announced as resident."""
        os.truncate(file, max(0, file.stat().st_size - cut))
        with pytest.raises(LoadError, match=r"model\.safetensors"):
            filled(plan)

    def test_a_file_replaced_since_the_check_is_named(
        self, plan: LoadPlan, file: Path, make_checkpoint: Callable[..., Path]
    ) -> None:
        """Else another model's bytes would be read at this one's offsets."""
        shutil.copy(make_checkpoint("qwen2") / "model.safetensors", file)
        with pytest.raises(LoadError, match=r"model\.safetensors: changed"):
            filled(plan)

    @pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
    def test_a_file_truncated_while_it_is_read_is_named(
        self, make_checkpoint: Callable[..., Path], tmp_path: Path, stored: torch.dtype
    ) -> None:
        """Else a download that overwrites the file under a load would leave zeros in the weights."""
        directory = shutil.copytree(make_checkpoint("llama", stored), tmp_path / "other")
        file = directory / "model.safetensors"
        plan = LoadPlan.of(Checkpoint.open(directory), "float32")

        def cut(done: int, total: int) -> None:
            if done > total // 2:
                os.truncate(file, file.stat().st_size * 4 // 5)

        with pytest.raises(LoadError, match=r"model\.safetensors: ends \d+ bytes early"):
            filled(plan, chunk_bytes=4096, progress=cut)

    def test_fifty_failures_leave_no_open_file(self, plan: LoadPlan, file: Path) -> None:
        """Else a broken draft would use up the process's file handles."""
        os.truncate(file, file.stat().st_size - 1)
        before = num_open_files()
        for _ in range(50):
            with pytest.raises(LoadError):
                filled(plan)
        assert num_open_files() == before


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_throttle_takes_as_long_as_such_storage_would(make_checkpoint: Callable[..., Path]) -> None:
    """Else figures "at 200 MB/s" would be of another speed."""
    clock = Clock()
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama")), "float32")
    throttle = Throttle(1e6, clock=clock, sleep=clock.sleep)
    _, report = filled(plan, chunk_bytes=4096, throttle=throttle)
    assert report.emulated
    assert clock.now == pytest.approx(plan.file_nbytes / 1e6)


def test_two_loads_share_one_throttled_storage(make_checkpoint: Callable[..., Path]) -> None:
    """Else loading two drafts at once would emulate storage of twice the speed."""
    clock = Clock()
    throttle = Throttle(1e6, clock=clock, sleep=clock.sleep)
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama")), "float32")
    for _ in range(2):
        filled(plan, throttle=throttle)
    assert clock.now == pytest.approx(2 * plan.file_nbytes / 1e6)


def test_a_reading_waits_for_the_one_before_it() -> None:
    """Else two loads at the same moment would each have the whole of the emulated storage."""
    clock = Clock()
    throttle = Throttle(1e6, clock=clock, sleep=clock.sleep)
    throttle.wait(500_000, lambda: True)  # gives up at once, but its bytes were read
    throttle.wait(500_000, lambda: False)
    assert clock.now == pytest.approx(1.0)


def test_a_throttled_load_notices_a_cancellation_within_20_ms(make_checkpoint: Callable[..., Path]) -> None:
    """Else revoking a load on slow storage would block the loader for seconds."""
    clock = Clock()
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint("llama")), "float32")
    throttle = Throttle(1000.0, clock=clock, sleep=clock.sleep)
    _, report = filled(plan, throttle=throttle, cancelled=lambda: clock.now >= 0.513)
    assert report.cancelled
    assert 0.513 <= clock.now <= 0.533


@pytest.mark.parametrize("speed", [0, -1, float("nan")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    """Else a load would never end."""
    with pytest.raises(ValueError, match="bytes_per_second"):
        Throttle(speed)
