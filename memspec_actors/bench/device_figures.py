"""What a device is asked for the sake of `bench/device_decode.py`: loads, decoding beside them, drafted tokens."""

import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from memspec_actors.bench.rounds import Spread, in_turns, ratio, spread
from memspec_actors.models.devices.device import Device, open_transfer
from memspec_actors.models.drafting.device_draft import DeviceDraft
from memspec_actors.models.drafting.device_slots import DeviceSlots
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.speculation.accept import judge_unseen
from memspec_actors.speculation.criterion import StopCriterion

__all__ = ["decoding", "loads", "overlap", "steps"]

CONTEXT, DRAFTED = 128, 5
COPIED_AT_ONCE = 64 << 20
WARM_UPS = 3


class _Unrecorded:
    """A device on which no step is recorded."""

    def __init__(self, device: Device) -> None:
        self.torch_device, self.memory, self.copier = device.torch_device, None, device.copier

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        return step


def loads(plan: LoadPlan, device: Device, place: Tensor, rounds: int) -> dict[str, Spread]:
    """Return GB/s of loads from files that the operating system holds in memory."""
    transfer, copier = open_transfer(device), device.copier()
    host = torch.empty(plan.nbytes, dtype=torch.uint8)
    pinned = None if copier is None else copier.host_buffer(min(COPIED_AT_ONCE, place.numel()))

    def load() -> float:
        return plan.file_nbytes / load_into(plan, place, transfer=transfer).wall_s / 1e9

    def read() -> float:
        began = time.perf_counter()
        for file in plan.checkpoint.files:
            with file.open("rb", buffering=0) as stream:
                stream.readinto(host.numpy().data)
        return plan.file_nbytes / (time.perf_counter() - began) / 1e9

    def copy() -> float:
        assert copier is not None and pinned is not None
        began = time.perf_counter()
        copier.begin()
        copier.copy(pinned, place[: len(pinned)]).synchronize()
        return len(pinned) / (time.perf_counter() - began) / 1e9

    found = in_turns(rounds + 1, {"load": load, "file": read} | ({} if copier is None else {"pinned copy": copy}))
    figures: dict[str, Spread] = {f"{name} GB/s": spread(values[1:]) for name, values in found.items()}
    if copier is not None:
        figures["load over pinned copy"] = ratio(found["load"][1:], found["pinned copy"][1:])
    return figures


def decoding(target: Runner, draft: Runner, num_ids: int, seconds: float) -> Callable[[], float]:
    """Return a function that decodes for so long and gives iterations per second."""
    caches = [runner.new_cache(CONTEXT + DRAFTED + 1) for runner in (target, draft)]
    for runner, cache in zip((target, draft), caches, strict=True):
        runner.forward(list(range(1, CONTEXT + 1)), cache, logits_to_keep=1)

    def iterate() -> None:
        if isinstance(draft, DeviceDraft):
            text = draft.draft_unseen([7], caches[1], DRAFTED)
            judge_unseen(text[1:], target.forward(text, caches[0])[:, :num_ids])
        else:
            assert isinstance(draft, LeanRunner)
            drafted, *_ = draft.draft_until([7], caches[1], DRAFTED, num_ids, StopCriterion(DRAFTED))
            target.forward([7, *drafted], caches[0])[:, :num_ids].argmax(-1).tolist()
        for cache in caches:
            cache.truncate(CONTEXT)

    def decode() -> float:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            iterate()
            count += 1
        return count / (time.perf_counter() - began)

    return decode


def overlap(decode: Callable[[], float], load: Callable[[], object], rounds: int) -> dict[str, Spread]:
    """Return what decoding keeps of its speed while a load follows the other without pause: the worst case."""

    def beside() -> float:
        ended = threading.Event()
        thread = threading.Thread(target=lambda: [load() for _ in iter(ended.is_set, True)])
        thread.start()
        try:
            return decode()
        finally:
            ended.set()
            thread.join()

    found = in_turns(rounds, {"alone": decode, "beside loads": beside})
    return {f"{name} iterations/s": spread(values) for name, values in found.items()} | {
        "kept beside loads": ratio(found["beside loads"], found["alone"])
    }


def steps(plan: LoadPlan, device: Device, lean: LeanRunner, num_ids: int, rounds: int) -> dict[str, Spread]:
    """Return microseconds per drafted token."""
    slots = {"step as it is": DeviceSlots(_Unrecorded(device))}
    if device.torch_device.type == "cuda":
        slots["step recorded"] = DeviceSlots(device)
    runners: dict[str, LeanRunner | DeviceDraft] = {"ordinary pass": lean}
    runners |= {name: each.bind(plan, lean, 0, num_ids) for name, each in slots.items()}

    def timed(runner: LeanRunner | DeviceDraft) -> Callable[[], float]:
        cache = runner.new_cache(CONTEXT + 4 * DRAFTED)
        runner.forward(list(range(1, CONTEXT + 1)), cache, logits_to_keep=1)

        def draft() -> float:
            began = time.perf_counter()
            if isinstance(runner, DeviceDraft):
                runner.draft([7], cache, 4 * DRAFTED, num_ids)
            else:
                runner.draft_until([7], cache, 4 * DRAFTED, num_ids, StopCriterion(4 * DRAFTED))
            wall = time.perf_counter() - began
            cache.truncate(CONTEXT)
            return wall / (4 * DRAFTED) * 1e6

        return draft

    found = in_turns(rounds + WARM_UPS, {name: timed(runner) for name, runner in runners.items()})
    kept = {name: values[WARM_UPS:] for name, values in found.items()}
    figures: dict[str, Spread] = {f"{name} us": spread(values) for name, values in kept.items()}
    if "step recorded" in kept:
        figures["recorded over as it is"] = ratio(kept["step recorded"], kept["step as it is"])
    return figures
