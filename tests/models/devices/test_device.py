"""A device that is not there, or too small, is refused before anything is taken."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from memspec_actors.errors import ConfigError, DeviceFull
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import HOST, DeviceMemory
from memspec_actors.models.devices.mps import MpsCopier
from memspec_actors.models.devices.opening import open_device
from memspec_actors.models.devices.transfer import Transfer
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.lean.cache import KvCache
from memspec_actors.models.weights.device_room import check_room
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.devices.test_transfer import check_weights
from tests.models.fake_device import FakeDevice


@pytest.mark.parametrize(
    ("name", "num_devices", "says"),
    [
        ("cuda", 0, "CUDA"),
        ("cuda:7", 0, "CUDA"),
        ("cuda:2", 2, "numbered from 0 to 1"),
        ("mps", 0, "no such GPU"),
        ("tpu", 0, '"cpu", "cuda"'),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_one_line(
    name: str, num_devices: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running on the CPU what was meant for a GPU would look like a slow GPU."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=f"device is '{name}'") as refusal:
        open_device(name)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_host_is_always_there() -> None:
    assert open_device("cpu") is HOST


def test_what_does_not_fit_is_refused_to_the_byte(make_checkpoint: Callable[..., Path]) -> None:
    """One byte too many would end in the middle of a load, one too few would refuse what fits."""
    checkpoint = Checkpoint.open(make_checkpoint("llama"))
    target = LoadPlan.of(checkpoint, "bfloat16", private=True, on_device=True)
    draft = LoadPlan.of(checkpoint, "bfloat16", on_device=True)
    cache = open_runner(checkpoint, dtype="bfloat16").new_cache(600)  # as many tokens as the model takes
    assert isinstance(cache, KvCache)
    needed = target.nbytes + 1000 + 3 * cache.memory.kv.nbytes  # the target and two of the three drafts
    drafts = [draft, draft, draft]
    check_room(FakeDevice(DeviceMemory(needed, 10 * needed)), target, drafts, 1000, 2)
    with pytest.raises(ConfigError, match="are needed"):
        check_room(FakeDevice(DeviceMemory(needed - 1, 10 * needed)), target, drafts, 1000, 2)
    check_room(HOST, target, drafts, 1 << 60, 2)


def test_a_text_too_long_for_the_device_costs_the_request_only(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's own error would bring the Decoder down, and the tokens cached so far with it."""
    runner = open_runner(Checkpoint.open(make_checkpoint("llama")), dtype="float32")
    monkeypatch.setattr("memspec_actors.models.lean.cache.FIRST_CAPACITY", 8)
    cache = runner.new_cache(8)
    before = runner.forward([1, 2, 3, 4], cache)
    empty, limit = torch.empty, 16

    def within_limit(*size: int, **options: object) -> torch.Tensor:
        if len(size) == 5 and size[3] >= limit:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")
        return empty(*size, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(torch, "empty", within_limit)
    with pytest.raises(DeviceFull, match=r"no room for .* \(16 tokens\)") as full:
        runner.forward([5] * 6, cache)
    assert "\n" not in str(full.value)
    assert cache.length == 4
    cache.truncate(0)
    assert math.isclose(float((runner.forward([1, 2, 3, 4], cache) - before).abs().max()), 0.0, abs_tol=1e-6)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA out of memory.\n")]
)
def test_a_pass_that_finds_no_room_is_told_in_one_line(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    """A prompt too long for the device would bring the Decoder down with all that wait for it."""
    runner = open_runner(Checkpoint.open(make_checkpoint("llama")), dtype="bfloat16")

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(runner, "_pass", full)
    cache = runner.new_cache(8)
    with pytest.raises(DeviceFull, match="no room for 3 tokens at once") as refusal:
        runner.forward([1, 2, 3], cache)
    assert "\n" not in str(refusal.value)
    assert cache.length == 0


def test_other_faults_of_a_pass_stay_what_they_are(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = open_runner(Checkpoint.open(make_checkpoint("llama")), dtype="bfloat16")

    def broken(*_: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(runner, "_pass", broken)
    with pytest.raises(RuntimeError, match="mat1"):
        runner.forward([1, 2, 3], runner.new_cache(8))


def test_weights_that_find_no_room_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was free when the engine looked may be gone when it takes it."""

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(DeviceFull, match="no room for 3 MB of weights"):
        WeightArena(3_000_000, FakeDevice())


def test_apples_gpu_is_opened_with_what_metal_leaves_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 100)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 30)
    device = open_device("mps")
    assert (device.torch_device.type, device.memory) == ("mps", DeviceMemory(free=70, total=100))


def test_plain_copies_bring_what_a_load_reads(make_checkpoint: Callable[..., Path]) -> None:
    """Where memory is shared, copies are waited for: filling staging memory anew must still be right."""
    directory = make_checkpoint("llama", torch.bfloat16)
    plan = LoadPlan.of(Checkpoint.open(directory), "float32", on_device=True)
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory, chunk_bytes=3000, transfer=Transfer(MpsCopier()))
    check_weights(plan, memory, directory)
