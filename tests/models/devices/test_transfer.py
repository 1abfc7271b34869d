"""What a load brings to a device is what lies in the file, whenever the copies run, and however the load ends."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig

from memspec_actors.errors import ConfigError, LoadError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.transfer import Transfer
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.segments import Slot
from tests.models.conftest import GENERIC, save_random
from tests.models.fake_device import LateCopier
from tests.models.gptq_writer import Variant, write_gptq
from tests.models.weights.test_gptq import EXACT, SIZES, expected, logits
from tests.models.weights.test_loading import fused

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def device_plan(directory: Path, dtype: str = "float32") -> LoadPlan:
    return LoadPlan.of(Checkpoint.open(directory), dtype, on_device=True)  # type: ignore[arg-type]


def check_weights(plan: LoadPlan, memory: Tensor, directory: Path) -> None:
    """Compare with safetensors' own reading: rows as stored, fused ones side by side, nothing transposed."""
    stored, dtype = load_file(directory / "model.safetensors"), DTYPES[plan.dtype]
    for name, slot in plan.slots.items():
        assert isinstance(slot, Slot)
        expected = fused(stored, name).to(dtype)
        got = memory[slot.offset : slot.offset + expected.nbytes].view(dtype).view(expected.shape)
        assert torch.equal(got, expected), name


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    chunk_bytes=st.integers(500, 20_000),
    stored=st.sampled_from([torch.float32, torch.bfloat16]),
    dtype=st.sampled_from(sorted(DTYPES)),
)
def test_every_weight_arrives_whenever_copies_run(
    make_checkpoint: Callable[..., Path], seed: int, chunk_bytes: int, stored: torch.dtype, dtype: str
) -> None:
    """Staging memory that is filled anew before its copy has run would put one tensor's rows in another's place."""
    directory = make_checkpoint("qwen2", stored)
    plan, copier = device_plan(directory, dtype), LateCopier(seed)
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    report = load_into(plan, memory, chunk_bytes=chunk_bytes, transfer=Transfer(copier))
    assert not copier.waiting
    assert report.nbytes == plan.file_nbytes
    check_weights(plan, memory, directory)


def test_a_load_waits_for_the_work_of_earlier_tenants_first(make_checkpoint: Callable[..., Path]) -> None:
    """The memory may be a revoked draft's whose last pass is still running on the device."""
    plan, copier = device_plan(make_checkpoint("llama")), LateCopier()
    transfer = Transfer(copier)
    for _ in range(2):
        copier.history.clear()
        load_into(plan, torch.zeros(plan.nbytes, dtype=torch.uint8), transfer=transfer)
        assert copier.history[0] == "begin"
        assert copier.history.count("begin") == 1


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_cancelled_load_leaves_no_copy_on_its_way(make_checkpoint: Callable[..., Path], stored: torch.dtype) -> None:
    """It would land in the memory of whichever draft comes next."""
    directory = make_checkpoint("llama", stored)
    plan = device_plan(directory)
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    num_asked = _num_chunks(plan, memory)
    for stop in range(0, num_asked, 7):
        copier, asked = LateCopier(stop), iter(range(num_asked))
        transfer = Transfer(copier)
        report = load_into(
            plan,
            memory,
            chunk_bytes=4096,
            cancelled=lambda asked=asked, stop=stop: next(asked) >= stop,  # type: ignore[misc]
            transfer=transfer,
        )
        assert report.cancelled
        assert not copier.waiting
        load_into(plan, memory, transfer=transfer)
        check_weights(plan, memory, directory)


def _num_chunks(plan: LoadPlan, memory: Tensor) -> int:
    chunks: list[int] = []
    transfer = Transfer(LateCopier())
    load_into(plan, memory, chunk_bytes=4096, progress=lambda done, _: chunks.append(done), transfer=transfer)
    return len(chunks)


def test_a_load_that_fails_leaves_no_copy_on_its_way(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    source = make_checkpoint("llama")
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    plan, copier = device_plan(tmp_path), LateCopier(3)
    file = tmp_path / "model.safetensors"
    cut: list[int] = []

    def truncate(done: int, total: int) -> None:
        if done > total // 2 and not cut:
            cut.append(done)
            with file.open("rb+") as stream:
                stream.truncate(file.stat().st_size // 2)

    with pytest.raises(LoadError, match="safetensors: ends"):
        load_into(
            plan,
            torch.zeros(plan.nbytes, dtype=torch.uint8),
            chunk_bytes=4096,
            progress=truncate,
            transfer=Transfer(copier),
        )
    assert not copier.waiting


@pytest.mark.parametrize("variant", [Variant(), Variant(64, 2, False, True), Variant(-1, 1, False)], ids=str)
def test_gptq_weights_arrive_as_what_their_codes_stand_for(tmp_path: Path, variant: Variant) -> None:
    """The int4 kernel is the CPU's, so a device gets the weights dequantised."""
    directory, model = write_gptq(tmp_path, LlamaConfig(**SIZES), variant)
    plan = device_plan(directory)
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory, chunk_bytes=3000, transfer=Transfer(LateCopier(1)))
    assert plan.weight_format == "float32"
    torch.testing.assert_close(logits(plan.bind(memory), [30, 5, 1, 1, 3]), expected(model), atol=EXACT, rtol=0)


def test_codes_do_not_go_to_devices(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """Their kernels are the CPU's: a user is told before memory is taken, not by a crash."""
    for dtype in ("int8", "int4"):
        with pytest.raises(ConfigError, match=f"dtype is '{dtype}'"):
            device_plan(make_checkpoint("llama"), dtype)
    with pytest.raises(ConfigError, match="GPT2LMHeadModel runs through transformers"):
        device_plan(save_random(tmp_path, GENERIC["gpt2"](), torch.float32))
