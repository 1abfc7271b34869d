"""Measure a device profile on this machine, with the models of a configuration."""

import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from memspec_actors.config import Config
from memspec_actors.errors import ConfigError
from memspec_actors.loadout import Loadout
from memspec_actors.models.devices.device import open_transfer
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.predictor.ranker import PredictorRanker, predictor_directory
from memspec_actors.scheduling.rankers import Ranker, RankingContext
from memspec_actors.simulation.profile import DeviceProfile

__all__ = ["measure_profile", "pass_ms"]

WIDTHS = (1, 2, 4, 6, 8, 32, 128)
CONTEXT = 128  # tokens read before what is timed
REPEATS = 15
DRAFTED = 5  # tokens of an iteration between two rankings
ITERATIONS = 2  # as many make a core's caches lose what a ranking runs; more change nothing


def measure_profile(config: Config) -> DeviceProfile:
    """Time the target, the first draft, its load and a ranking by the predictor, if there is one.

    Raises ConfigError if no draft is configured, and what opening the models raises.
    """
    torch.set_num_threads(config.target.num_threads)
    loadout = Loadout.open(config)
    if not loadout.plans:
        raise ConfigError("a profile needs a draft to measure; configure one")
    (name, plan), *_ = loadout.plans.items()
    memory, transfer = WeightArena(plan.nbytes, loadout.device).view(0, plan.nbytes), open_transfer(loadout.device)
    load_ms = median(_timed_ms(lambda: load_into(plan, memory, transfer=transfer)) for _ in range(REPEATS))
    draft = plan.bind(memory)
    long = pass_ms(draft, CONTEXT)
    return DeviceProfile(
        device=f"{_device(config)}, {loadout.target.dtype}, draft {name!r}",
        source=f"measured: medians of {REPEATS} after {CONTEXT} tokens",
        target_ms={width: pass_ms(loadout.target, width) for width in WIDTHS},
        draft_ms=pass_ms(draft, 1),
        catch_up_ms=long / CONTEXT,
        predict_ms=0.0
        if config.predictor.path is None
        else _ranking_ms(_open_predictor(config.predictor.path, loadout), _decoding(loadout.target, draft)),
        load_ms=load_ms,
    )


def pass_ms(runner: Runner, width: int) -> float:
    """Return the milliseconds of a pass over ``width`` tokens after `CONTEXT` others: the median of `REPEATS`."""
    run = _passes(runner, width)
    return median(run() for _ in range(REPEATS))


@torch.inference_mode()
def _passes(runner: Runner, width: int) -> Callable[[], float]:
    """Return what runs one such pass, and tells its milliseconds."""
    context = min(CONTEXT, runner.max_positions - width)
    cache = runner.new_cache(context + width)
    runner.forward(_ids(context), cache, logits_to_keep=1)

    @torch.inference_mode()
    def run() -> float:
        took = _timed_ms(lambda: runner.forward(_ids(width), cache)[0, 0].item())  # a device's work is done then
        cache.truncate(context)
        return took

    return run


def _device(config: Config) -> str:
    on_cpu = f"{platform.machine()}, {config.target.num_threads} thread(s)"
    return on_cpu if config.target.device == "cpu" else f"{config.target.device} of {on_cpu}"


def _open_predictor(path: str, loadout: Loadout) -> PredictorRanker:
    return PredictorRanker.open(predictor_directory(path), tuple(loadout.plans), loadout.tokenizer)


def _decoding(target: Runner, draft: Runner) -> Callable[[], None]:
    """Return what does the work of the iterations between two rankings."""
    drafting, verifying = _passes(draft, 1), _passes(target, DRAFTED + 1)

    def decode() -> None:
        for _ in range(ITERATIONS):
            for _ in range(DRAFTED):
                drafting()
            verifying()

    return decode


def _ranking_ms(ranker: Ranker, decode: Callable[[], None]) -> float:
    """Return the milliseconds of a ranking that finds a core as decoding leaves it: the median of `REPEATS`."""
    contexts = [
        RankingContext(prompt_ids=tuple(_ids(64)), recent_ids=tuple(_ids(64)), interval=interval, num_generated=64)
        for interval in range(1, REPEATS + 1)
    ]
    times = []
    for context in contexts:
        decode()
        times.append(_timed_ms(partial(ranker.rank, context)))
    return median(times)


def _ids(count: int) -> Sequence[int]:
    return [1 + i % 16 for i in range(count)]


def _timed_ms(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3
