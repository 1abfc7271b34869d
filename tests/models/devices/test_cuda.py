"""The few calls of CUDA come in the order that its promises ask for, whenever its work runs."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices import cuda as cuda_module
from memspec_actors.models.devices.cuda import CudaDevice
from memspec_actors.models.devices.opening import open_device
from memspec_actors.models.devices.transfer import Transfer
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.devices.fake_cuda import FakeCuda, FakeMemory
from tests.models.devices.test_transfer import check_weights

SEEDS = range(60)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeCuda]:
    """Return a function that puts a fake CUDA in torch's place, as far as the module under test sees."""

    class Torch:
        def __init__(self, cuda: FakeCuda) -> None:
            self.cuda, self.device, self.uint8 = cuda, torch.device, torch.uint8

        def empty(self, nbytes: int, *, dtype: torch.dtype, pin_memory: bool) -> torch.Tensor:
            assert pin_memory, "a copy from other memory is not asynchronous"
            return torch.empty(nbytes, dtype=dtype)

    def put(seed: int) -> FakeCuda:
        cuda = FakeCuda(seed)
        monkeypatch.setattr(cuda_module, "torch", Torch(cuda))
        return cuda

    return put


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_a_load_waits_for_its_place_and_tells_when_it_is_there(
    install: Callable[[int], FakeCuda], make_checkpoint: Callable[..., Path], seed: int
) -> None:
    """A revoked draft's last pass would read the next one's weights, or the next one's first pass the old."""
    cuda = install(seed)
    directory = make_checkpoint("llama")
    plan = LoadPlan.of(Checkpoint.open(directory), "float32", on_device=True)
    memory = torch.full((plan.nbytes,), 7, dtype=torch.uint8)
    seen: list[bool] = []
    for _ in range(3):  # the old tenant's work, given before the load, runs whenever it likes
        cuda.default.put(lambda: seen.append(bool((memory == 7).all())))
    place: Any = FakeMemory(cuda, memory)
    copier: Any = CudaDevice(0).copier()
    load_into(plan, place, chunk_bytes=3000, transfer=Transfer(copier))
    assert seen == [True] * 3
    check_weights(plan, memory, directory)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_load_waits_for_nothing_that_comes_after_it_began(install: Callable[[int], FakeCuda], seed: int) -> None:
    """Loads would stand still while decoding goes on."""
    cuda = install(seed)
    copier = CudaDevice(0).copier()
    copier.begin()
    cuda.default.put(lambda: None, lambda: False)  # decoding that never ends
    place: Any = FakeMemory(cuda, torch.zeros(4, dtype=torch.uint8))
    for _ in range(3):
        copier.copy(torch.ones(4, dtype=torch.uint8), place).synchronize()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recorded_step_runs_once_a_replay_and_among_other_work_in_order(
    install: Callable[[int], FakeCuda], seed: int
) -> None:
    """Trying a step beside decoding, or running it while it is recorded, would spoil what decoding reads."""
    cuda = install(seed)
    history = [100]

    def step() -> None:
        cuda.now.put(lambda: history.append(history[-1] + 1))

    def rewind() -> None:
        cuda.now.put(lambda: history.append(0))

    cuda.default.put(lambda: history.append(200))
    run = CudaDevice(0).repeatable(step, rewind)
    cuda.default.put(lambda: history.append(10))
    for _ in range(3):
        run()
    cuda.synchronize()
    assert history == [100, 200, *[0, 1] * 3, 10, 11, 12, 13]


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_a_step_that_cannot_be_recorded_is_run_as_it_is(
    install: Callable[[int], FakeCuda], seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Some kernel or driver that does not allow it would end every request."""
    cuda = install(seed)
    cuda.fails_to_record = True
    count = [0]

    def step() -> None:
        cuda.now.put(lambda: count.__setitem__(0, count[0] + 1))

    with caplog.at_level(logging.WARNING):
        run = CudaDevice(0).repeatable(step, lambda: count.__setitem__(0, 0))
    cuda.synchronize()
    before = count[0]
    run()
    cuda.synchronize()
    assert count[0] == before + 1
    (record,) = caplog.records
    assert "operation failed due to a previous error" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_device_that_is_there_is_opened(install: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    install(0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    device = open_device("cuda:1")
    assert isinstance(device, CudaDevice)
    assert device.torch_device == torch.device("cuda", 1)
