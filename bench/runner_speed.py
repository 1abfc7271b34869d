"""Measure a model's forward pass, lean and by transformers, against the memory floor; and its loads.

Run as ``python bench/runner_speed.py [--model DIR] [--json]``; without a model, the embedded target. One thread.
A pass is timed in processor time of its thread, least and median of all rounds, so that other work on the machine
disturbs little; the floor is the time to read every weight once from memory.
"""

import argparse
import inspect
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.segments import FloatSegment
from memspec_actors.zoo import path as zoo_path

WIDTHS = range(1, 10)
CONTEXT_TOKENS = 200
ROUNDS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a model's forward pass and its loads.")
    parser.add_argument("--model", type=Path, help="a Hugging Face directory; default: the embedded target")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = Checkpoint.open(arguments.model or zoo_path("target"))
    result = measure(checkpoint, arguments.rounds)
    print(json.dumps(result, indent=2) if arguments.json else _table(result))


def measure(checkpoint: Checkpoint, rounds: int) -> dict[str, Any]:
    """Return every figure; times in microseconds of processor time, loads in milliseconds."""
    arena, private = _bind(checkpoint), open_runner(checkpoint, dtype="float32")
    reference = transformers.AutoModelForCausalLM.from_pretrained(checkpoint.path, dtype=torch.float32)
    copy_gb_per_s = _read_speed()
    rows = []
    for width in WIDTHS:
        ids = torch.arange(width) % checkpoint.vocab_size
        rows.append(
            {
                "width": width,
                "floor_us": checkpoint.nbytes("float32") / copy_gb_per_s / 1e3,
                "draft_us": _timed(_lean_pass(arena, ids), rounds),
                "target_us": _timed(_lean_pass(private, ids), rounds),
                "transformers_us": _timed(_transformers_pass(reference, ids), rounds),
            }
        )
    return {
        "model": str(checkpoint.path),
        "nbytes": checkpoint.nbytes("float32"),
        "read_gb_per_s": copy_gb_per_s,
        "widths": rows,
        "largest_logit_difference": {
            name: _width_difference(runner, checkpoint.vocab_size)
            for name, runner in (("draft", arena), ("target", private))
        },
        "loads": [_load(checkpoint, dtype, rounds=8) for dtype in ("float32", "bfloat16")],
        "dtype": "float32",
        "threads": 1,
        "load_average": os.getloadavg()[0],
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _bind(checkpoint: Checkpoint) -> Runner:
    """Return the runner as a draft has it, on arena memory."""
    plan = LoadPlan.of(checkpoint, "float32")
    memory = torch.empty(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory)
    return plan.bind(memory)


def _lean_pass(runner: Runner, ids: torch.Tensor) -> Callable[[], None]:
    cache = runner.new_cache(2 * CONTEXT_TOKENS)
    runner.forward([5] * CONTEXT_TOKENS, cache)

    def run() -> None:
        runner.forward(ids, cache)
        cache.truncate(CONTEXT_TOKENS)

    return run


def _transformers_pass(model: Any, ids: torch.Tensor) -> Callable[[], None]:
    past = transformers.DynamicCache()
    # The argument was renamed in transformers 5; the old name warns there.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    with torch.inference_mode():
        model(torch.full((1, CONTEXT_TOKENS), 5), use_cache=True, **{name: past})

    @torch.inference_mode()
    def run() -> None:
        model(ids[None], use_cache=True, **{name: past})
        past.crop(-len(ids))

    return run


def _timed(run: Callable[[], object], rounds: int) -> dict[str, float]:
    times = []
    run()
    for _ in range(rounds):
        begin = time.thread_time_ns()
        run()
        times.append((time.thread_time_ns() - begin) / 1e3)
    return {"least": min(times), "median": statistics.median(times)}


def _width_difference(runner: Runner, vocab_size: int) -> float:
    """Return the largest difference of any logit between one token at a time and blocks of 2 to 9."""
    ids = torch.randint(vocab_size, (72,), generator=torch.Generator().manual_seed(0))
    single = _blocks(runner, ids, 1)
    return max(float((_blocks(runner, ids, width) - single).abs().max()) for width in range(2, 10))


def _blocks(runner: Runner, ids: torch.Tensor, width: int) -> torch.Tensor:
    cache = runner.new_cache(len(ids))
    return torch.cat([runner.forward(ids[start : start + width], cache) for start in range(0, len(ids), width)])


def _load(checkpoint: Checkpoint, dtype: str, rounds: int) -> dict[str, Any]:
    plan = LoadPlan.of(checkpoint, "float32" if dtype == "float32" else "bfloat16")
    memory = torch.empty(plan.nbytes, dtype=torch.uint8)
    walls = [load_into(plan, memory).wall_s * 1e3 for _ in range(rounds)]
    begin = time.perf_counter()
    plan.bind(memory)
    return {
        "dtype": dtype,
        "direct": all(isinstance(segment, FloatSegment) and segment.direct for segment in plan.segments),
        "nbytes": plan.file_nbytes,
        "least_ms": min(walls),
        "median_ms": statistics.median(walls),
        "bind_ms": (time.perf_counter() - begin) * 1e3,
    }


def _read_speed() -> float:
    """Return how many bytes one thread reads from memory per nanosecond."""
    memory = torch.ones(1 << 26)
    run = _timed(memory.sum, 5)
    return memory.nbytes / run["least"] / 1e3


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['model']}: {result['nbytes'] / 1e6:.1f} MB in float32, one thread, load {result['load_average']:.1f}"
    ]
    lines.append("width  floor   draft  target  transformers   (least processor time, us)")
    for row in result["widths"]:
        times = "  ".join(f"{row[name]['least']:7.0f}" for name in ("draft_us", "target_us", "transformers_us"))
        lines.append(f"{row['width']:5}  {row['floor_us']:5.0f}  {times}")
    lines.append(f"largest logit difference between widths: {result['largest_logit_difference']}")
    lines += [
        f"load as {load['dtype']}: {load['least_ms']:.2f} ms ({'direct' if load['direct'] else 'converted'}), "
        f"bind {load['bind_ms']:.2f} ms"
        for load in result["loads"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
