"""Run the policies for real, interleaved prompt by prompt, each prompt from an empty cache."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from msgspec.structs import replace

from memspec_actors.bench.datasets import DataSet
from memspec_actors.comparison import BASE, STRICT, STRICT_DRAFT, Outcome
from memspec_actors.config import Config, DraftConfig, EventsConfig, StorageConfig
from memspec_actors.engine import MemSpec
from memspec_actors.loadout import model_directory
from memspec_actors.methods import choose
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.predictor.collect import collect
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.traces import MAX_K, TraceReader
from memspec_actors.progress import Progress
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.protocols.traces import TraceHeader
from memspec_actors.scheduling.plans import write_plans
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.simulation.measure import measure_profile
from memspec_actors.simulation.planning import Planner, plan_header
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.simulation.setting import Setting
from memspec_actors.speculation.stop import FixedLength, criterion_of, stop_rule

__all__ = ["PLAN_LENGTH", "identical_share", "plan_length", "run_policies", "throttled"]

CALIBRATION_PROMPTS = 3
PLAN_LENGTH = 5  # where no length is configured


def run_policies(
    config: Config,
    datasets: Sequence[DataSet],
    policies: Sequence[str],
    *,
    runs: int,
    max_new_tokens: int,
    progress: Progress,
) -> list[Outcome]:
    """Decode every prompt under every policy, and under General-Static beside them, ``runs`` times.

    One engine runs them all: two of the same models may differ by a tenth, by where their weights lie in memory.
    Oracles follow plans that are made beforehand, from traces of these prompts and times of this machine, under the
    configured stop rule; where that cannot be planned for, and for Oracle-Dynamic, for a draft length of `plan_length`.
    With the embedded models the strict general draft runs too. It has an event loop of its own, and so do replays.
    """
    policies = list(dict.fromkeys((BASE, *policies)))
    with TemporaryDirectory() as scratch:
        plan = _write_plans(config, datasets, policies, max_new_tokens, Path(scratch), progress)
        planned = replace(config, schedule=replace(config.schedule, policy=BASE, plan=plan))
        return anyio.run(_run_all, planned, datasets, policies, runs, max_new_tokens, progress)


async def throttled(config: Config, load_ratio: float, datasets: Sequence[DataSet], max_new_tokens: int) -> Config:
    """Return the configuration with storage so slow that loading a draft takes ``load_ratio`` iterations.

    How long an iteration takes is measured on a few of the prompts.
    """
    prompts = [task.prompt for dataset in datasets for task in dataset.tasks][:CALIBRATION_PROMPTS]
    general = replace(config, schedule=replace(config.schedule, policy=BASE, plan=None))
    async with MemSpec.open(general) as engine:
        results = [await engine.generate(prompt, max_new_tokens=max_new_tokens) for prompt in prompts]
    counts = [draft.iterations for result in results for draft in result.scheduling.drafts.values()]
    iteration_s = sum(result.timing.decode_s - result.scheduling.startup_s for result in results) / max(sum(counts), 1)
    draft = Checkpoint.open(model_directory(config.drafts[0].model))
    nbytes = sum(entry.nbytes for entry in draft.weights().values())
    megabytes_per_s = max(nbytes / (load_ratio * iteration_s) / 1e6, 1e-3)
    return replace(config, storage=StorageConfig(bandwidth=f"{megabytes_per_s:.3f}MB/s"))


def plan_length(config: Config) -> int:
    """Return the draft length that the oracles plan for: the configured one if it is fixed, else `PLAN_LENGTH`."""
    rule = stop_rule(choose(config).stop)
    return min(max(rule.max_tokens, 1), MAX_K) if type(rule) is FixedLength else PLAN_LENGTH


def identical_share(outcomes: Sequence[Outcome]) -> float:
    """Return the share of prompts whose text was the same under every policy and in every run."""
    texts: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    numbers: dict[tuple[int, str, str], int] = {}
    for run, dataset, policy, result in outcomes:
        number = numbers[run, dataset, policy] = numbers.get((run, dataset, policy), -1) + 1
        texts.setdefault((dataset, number), set()).add(result.token_ids)
    return sum(len(each) == 1 for each in texts.values()) / len(texts)


async def _run_all(
    config: Config,
    datasets: Sequence[DataSet],
    policies: Sequence[str],
    runs: int,
    max_new_tokens: int,
    progress: Progress,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(MemSpec.open(config))
        engines = dict.fromkeys(policies, engine)
        if config.target.model == "zoo" and STRICT_DRAFT not in engine.drafts:
            engines[STRICT] = await stack.enter_async_context(MemSpec.open(_strict(config)))
        for policy in engines:  # first touches of memory, caches of kernels
            await _decode(engines[policy], policy, datasets[0].tasks[0].prompt, max_new_tokens)
        for run in range(runs):
            for dataset in datasets:
                outcomes += await _run(engines, dataset, run, max_new_tokens)
                progress("policies", run * len(datasets) + datasets.index(dataset) + 1, runs * len(datasets))
    return outcomes


async def _run(engines: Mapping[str, MemSpec], dataset: DataSet, run: int, max_new_tokens: int) -> list[Outcome]:
    outcomes = []
    for number, task in enumerate(dataset.tasks):
        shift = (number + run) % len(engines)  # nobody always comes first
        policies = list(engines)
        for policy in (*policies[shift:], *policies[:shift]):
            result = await _decode(engines[policy], policy, task.prompt, max_new_tokens)
            outcomes.append(Outcome(run, dataset.name, policy, result))
    return outcomes


async def _decode(engine: MemSpec, policy: str, prompt: str, max_new_tokens: int) -> GenerationResult:
    """Decode with an empty cache: nothing is left of the prompt before."""
    for name in engine.drafts:
        await engine.steer_draft("unload", name)
    return await engine.generate(prompt, max_new_tokens=max_new_tokens, policy=policy)


def _strict(config: Config) -> Config:
    return replace(
        config,
        drafts=(DraftConfig(name=STRICT_DRAFT),),
        schedule=replace(config.schedule, policy=STRICT, plan=None),
        events=EventsConfig(),  # an event log is one engine's
    )


def _write_plans(
    config: Config,
    datasets: Sequence[DataSet],
    policies: Sequence[str],
    max_new_tokens: int,
    scratch: Path,
    progress: Progress,
) -> str | None:
    """Trace the prompts and write a file of the plans of all oracles among the policies; return its path."""
    oracles = [policy for policy in policies if parse_policy(policy, [d.name for d in config.drafts]).needs_plan]
    if not oracles:
        return None
    drafts = {draft.name: model_directory(draft.model) for draft in config.drafts}
    prompts = [Prompt(task.prompt, dataset.name) for dataset in datasets for task in dataset.tasks]
    target = model_directory(config.target.model)
    stop, k = _planned_stop(config), plan_length(config)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "k": k, "free_runs": stop is not None}
    collect(target, drafts, prompts, scratch / "traces", progress=progress, **options)
    reader = TraceReader(scratch / "traces")
    texts = [(reader.header, record) for record in reader]
    fixed = Setting(profile=_profile(config, reader.header), schedule=config.schedule, capacity=config.memory.capacity)
    with (scratch / "plans").open("ab") as together:
        for policy in oracles:
            setting = fixed if policy == "oracle-dynamic" else dataclasses.replace(fixed, stop=stop)
            planner = Planner(texts, setting)
            plans = [planner.plan(policy, text) for text in texts]
            write_plans(scratch / policy, plan_header(reader.header, setting, policy), plans)
            together.write((scratch / policy).read_bytes())
    return str(scratch / "plans")


def _planned_stop(config: Config) -> str | None:
    """Return the stop rule to plan for; None where drafts have one length, or end as the user's own rule says."""
    stop = choose(config).stop
    rule = stop_rule(stop)
    return None if type(rule) is FixedLength or criterion_of(rule) is None else stop


def _profile(config: Config, header: TraceHeader) -> DeviceProfile:
    """Measure this machine, its storage as slow as it is configured to be."""
    profile, bandwidth = measure_profile(config), config.storage.bytes_per_second
    if bandwidth is None:
        return profile
    return replace(profile, load_ms=max(header.draft_nbytes.values()) / bandwidth * 1e3)
