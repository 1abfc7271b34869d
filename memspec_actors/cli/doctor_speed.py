"""How fast this machine multiplies with each kind of weights, and with more threads: measured, within seconds."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median

import torch
from torch import Tensor

from memspec_actors.cli.doctor_line import Check
from memspec_actors.cores import usable_cores
from memspec_actors.models.kernels.int4 import int4_works, quantise_int4
from memspec_actors.models.kernels.int8 import int8_works, quantise_int8
from memspec_actors.models.kernels.linear import WeightPart, map_part

__all__ = ["check_speed", "kernel_check", "threads_check"]

WIDTH, NUM_WEIGHTS, GROUP = 2048, 6, 128  # weights of 100 MB in float32: past the caches
ROWS = (1, 6)  # a drafted token; a verification of five
REPEATS = 5
WORTH = 1.3  # a dtype or more threads that are so many times as fast are worth a change

Map = Callable[[Tensor], Tensor]


def check_speed() -> Iterator[Check]:
    """Compare kernels and thread counts."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        weights = [torch.randn(WIDTH, WIDTH) for _ in range(NUM_WEIGHTS)]
        yield kernel_check({name: [_time_us(maps, rows) for rows in ROWS] for name, maps in _kernels(weights)})
        yield threads_check(usable_cores(), *_thread_times_us(weights))
    finally:
        torch.set_num_threads(before)


def kernel_check(times_us: Mapping[str, Sequence[float]]) -> Check:
    """Judge times by dtype, one for each of `ROWS`; a dtype that has no kernel is absent."""
    plain = times_us["float32"]
    gains = {name: [old / new for old, new in zip(plain, times, strict=True)] for name, times in times_us.items()}
    found = ", ".join(f"{name} {one:.1f} / {block:.1f}" for name, (one, block) in gains.items() if name != "float32")
    absent = [name for name in ("bfloat16", "int8", "int4") if name not in gains]
    found = f"times as fast as float32, for 1 / {ROWS[1]} tokens: {found or 'nothing else works'}"
    if absent:
        return Check(
            "kernels", "warn", f"{found}; no sound kernel for {' '.join(absent)}", "install torch 2.6 or newer"
        )
    fast = [name for name, each in gains.items() if name != "float32" and min(each) >= WORTH]
    if not fast:
        return Check("kernels", "ok", found, 'keep [target] dtype = "float32" for speed; others save memory')
    return Check("kernels", "ok", found, f"large models run faster here with dtype = {_either(fast)}, rounded")


def threads_check(cores: int, one_us: float, many_us: float) -> Check:
    """Judge what ``cores`` threads make of a product that one thread takes ``one_us`` for."""
    gain = one_us / many_us
    found = f"{cores} cores usable; together they are {gain:.1f} times as fast as one"
    if cores == 1:
        return Check("threads", "ok", found, "ranking and loading share the one core with decoding")
    if gain < 1:
        return Check("threads", "warn", found, "keep [target] threads = 1, and end what else is running")
    if gain < WORTH:
        return Check("threads", "ok", found, "keep [target] threads = 1")
    return Check("threads", "ok", found, 'for models of a billion parameters or more set [target] threads = "auto"')


def _kernels(weights: Sequence[Tensor]) -> Iterator[tuple[str, list[Map]]]:
    yield "float32", [_plain(weight) for weight in weights]
    yield "bfloat16", [_plain(weight.bfloat16()) for weight in weights]
    if int8_works():
        yield "int8", [_coded(*quantise_int8(weight), 0) for weight in weights]
    if int4_works():
        yield "int4", [_coded(*quantise_int4(weight, GROUP), GROUP) for weight in weights]


def _plain(weight: Tensor) -> Map:
    """Multiply as the lean runner does: in float32 by the weight as (in, out) in memory, else as it is stored."""
    matrix = weight.t().contiguous() if weight.dtype == torch.float32 else weight.t()
    return lambda rows: torch.mm(rows.to(matrix.dtype), matrix)


def _coded(codes: Tensor, scales: Tensor, group: int) -> Map:
    return partial(map_part, WeightPart(codes, scales=scales, group=group))


def _time_us(maps: Sequence[Map], num_rows: int) -> float:
    rows = torch.randn(num_rows, WIDTH)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter_ns()
        for apply in maps:
            apply(rows)
        times.append((time.perf_counter_ns() - began) / 1e3 / len(maps))
    return median(times)


def _thread_times_us(weights: Sequence[Tensor]) -> tuple[float, float]:
    maps, times = [_plain(weight) for weight in weights], []
    for num_threads in (1, usable_cores()):
        torch.set_num_threads(num_threads)
        times.append(_time_us(maps, ROWS[1]))
    return times[0], times[1]


def _either(names: Sequence[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)
