"""Claim: on a device, loads run beside decoding at the speed of copies, and drafting by a recorded step pays.

Measures, with the models of `--config` or the embedded ones, on `--device`: tokens per second by policy; the bandwidth
of loads beside that of the file alone and of pinned copies alone; what loads cost the decoding beside them; a drafted
token by a recorded step, by the same step as it is, and by the ordinary pass. What is compared is measured in turns.
`--wide` takes random models of a size that a GPU is made for: 1.5 GB of target, 0.3 GB of draft. `--json FILE` keeps
the figures. What does not apply to a device is said. On a CPU with the embedded models: two minutes, with `--quick`
half a minute.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.bench.device_figures import decoding, loads, overlap, steps
from memspec_actors.bench.rounds import Spread, spread
from memspec_actors.bench.wide_models import write_wide
from memspec_actors.config import DraftConfig, PredictorConfig, ScheduleConfig, TargetConfig
from memspec_actors.errors import MemSpecError
from memspec_actors.loadout import Loadout
from memspec_actors.models.devices.device import HOST, Device, open_transfer
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.device_slots import DeviceSlots
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.weights.loading import load_into

PROMPT = "caution Buspril for Femer, age 32; compose new_beto for Pulal, limit=50; gather 8 breamols for Waman"


async def by_policy(config: Config, num_tokens: int, rounds: int) -> dict[str, Spread]:
    """Return tokens per second, without loading the first draft and reading the prompt."""
    first = config.drafts[0].name
    policies = ["target-only", f"static:{first}", *(["memspec"] if config.predictor.path else [])]
    rates: dict[str, list[float]] = {policy: [] for policy in policies}
    async with MemSpec.open(config) as engine:
        for _ in range(rounds + 1):
            for policy in policies:
                result = await engine.generate(
                    PROMPT, max_new_tokens=num_tokens, policy=policy, sampling=SamplingParams(ignore_eos=True)
                )
                rates[policy].append(result.timing.tokens_per_second)
    return {policy: spread(found[1:]) for policy, found in rates.items()}  # the first round warms up


def measure(config: Config, *, quick: bool) -> dict[str, Any]:
    torch.set_num_threads(config.target.num_threads)
    rounds, seconds, num_tokens = (3, 0.5, 48) if quick else (9, 2.0, 128)
    figures = without_engine(config, rounds, seconds)  # lets go of its models before the engine takes memory
    return {**figures, "tokens/s": asyncio.run(by_policy(config, num_tokens, rounds))}


def without_engine(config: Config, rounds: int, seconds: float) -> dict[str, Any]:
    loadout = Loadout.open(config)
    device, (name, plan) = loadout.device, next(iter(loadout.plans.items()))
    num_ids, transfer = loadout.num_common[name], open_transfer(loadout.device)
    arena = WeightArena(2 * plan.nbytes, device)
    first, second = arena.view(0, plan.nbytes), arena.view(plan.nbytes, plan.nbytes)
    load_into(plan, first, transfer=transfer)
    lean = plan.bind(first)
    assert isinstance(lean, LeanRunner), "models that run through transformers are not measured here"
    draft = lean if device is HOST else DeviceSlots(device).bind(plan, lean, 0, num_ids)
    decode = decoding(loadout.target, draft, num_ids, seconds)
    return {
        "device": config.target.device,
        "name": torch.cuda.get_device_name(device.torch_device) if device.torch_device.type == "cuda" else None,
        "torch": torch.__version__,
        "dtype": loadout.weight_format,
        "threads": config.target.num_threads,
        "target_nbytes": loadout.target.nbytes,
        "draft_nbytes": plan.nbytes,
        "rounds": rounds,
        "loads": loads(plan, device, second, rounds),
        "overlap": overlap(decode, lambda: load_into(plan, second, transfer=transfer), rounds),
        "drafted token": steps(plan, device, lean, num_ids, 5 * rounds),
        "does not apply": _not_applying(device),
    }


def _not_applying(device: Device) -> dict[str, str]:
    kind, why = device.torch_device.type, {}
    if kind == "cpu":
        why["pinned copy"] = "files are read straight into the drafts' memory"
    elif kind == "mps":
        why["pinned copy"] = "memory is shared; the copy measured is a plain one"
    if kind != "cuda":
        why["step recorded"] = "only CUDA records steps, as graphs"
    return why


def _print(result: dict[str, Any]) -> None:
    for section, rows in result.items():
        if not isinstance(rows, dict):
            print(f"{section:34} {rows}")
            continue
        for name, value in rows.items():
            cells = value if isinstance(value, str) else "".join(f"{value[key]:12.4g}" for key in value)
            print(f"{section + ': ' + name:34} {cells}")
    print("columns: median, least, largest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config = Config.load(options.config) if options.config else Config()
    with tempfile.TemporaryDirectory() as scratch:
        if options.wide:
            target, draft = (str(write_wide(kind, Path(scratch))) for kind in ("target", "draft"))
            config = replace(
                config,
                target=TargetConfig(model=target, dtype="bfloat16"),
                drafts=(DraftConfig(name="a", model=draft), DraftConfig(name="b", model=draft)),
                predictor=PredictorConfig(path=None),
                schedule=ScheduleConfig(policy="target-only"),
            )
        given = {key: value for key in ("device", "dtype") if (value := getattr(options, key)) is not None}
        try:
            result = measure(replace(config, target=replace(config.target, **given)), quick=options.quick)
        except MemSpecError as error:
            parser.error(str(error))
    _print(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
