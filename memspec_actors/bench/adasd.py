"""Compare the systems of the AdaSD paper's tables, interleaved prompt by prompt on the same engine."""

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from tokenizers import Tokenizer

from memspec_actors.bench.datasets import DataSet
from memspec_actors.bench.quality import agreement, log_likelihoods, task_accuracy
from memspec_actors.config import Config
from memspec_actors.engine import MemSpec
from memspec_actors.methods import METHODS
from memspec_actors.models.checkpoint import Checkpoint
from memspec_actors.models.loadout import model_directory
from memspec_actors.models.runner import Runner, open_runner
from memspec_actors.protocols.results import GenerationResult

__all__ = ["BASE", "SYSTEMS", "AdaSDReport", "Quality", "Row", "compare"]

BASE = "vanilla"
DRAFT = "draft"  # the draft alone
SYSTEMS = (*METHODS, "target", DRAFT)
GENERAL_STATIC = "general-static"

Progress = Callable[[str, int, int], None]


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good the texts were; ``task_accuracy`` is null where no answer is known."""

    task_accuracy: float | None
    log_likelihood: float  # nats per token under the target
    agreement: float  # with the lossless text


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one method did on one data set; ``speedup`` is over vanilla in the same run, under the same policy."""

    dataset: str
    method: str
    policy: str
    tokens_per_second: float
    drafted_per_step: float
    accepted_per_step: float
    acceptance_rate: float
    departure_share: float
    lossless: bool
    speedup: float
    quality: Quality


class AdaSDReport(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison: speed-ups over vanilla (geometric mean over data sets), and with and without MemSpec.

    ``with_memspec`` gives the mixed prompts' speed-up over a general draft of fixed length, by policy and method.
    """

    geomean: Mapping[str, float]
    with_memspec: Mapping[str, Mapping[str, float]]
    share_thresholds: bool
    prompts_per_dataset: int
    max_new_tokens: int
    rows: tuple[Row, ...]


class _Cell(NamedTuple):
    """A data set under a policy; what it is measured with beside its own policy does not count in the means."""

    dataset: DataSet
    policy: str
    counts: bool


_Runs = dict[str, list[GenerationResult]]  # system -> one result per prompt


async def compare(
    config: Config,
    datasets: Sequence[DataSet],
    *,
    policy: str | None,
    systems: Sequence[str] = SYSTEMS,
    max_new_tokens: int,
    progress: Progress,
) -> AdaSDReport:
    """Decode every prompt with every system.

    Without a ``policy`` a data set of one domain is decoded with the draft of its domain, any other with the configured
    policy, and mixed prompts under ``general-static`` too. With ``config.speculation.share_thresholds`` what is learned
    is kept from prompt to prompt of a data set.
    """
    directory = model_directory(config.target.model)
    target = open_runner(Checkpoint.open(directory), dtype=config.target.dtype)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    rows: list[Row] = []
    cells = _cells(config, datasets, policy)
    for number, cell in enumerate(cells):
        progress("data sets", number, len(cells))
        runs = await _run(config, cell, systems, max_new_tokens, progress)
        rows += [_row(cell, system, runs, target, tokenizer) for system in systems]
    counted = {(cell.dataset.name, cell.policy) for cell in cells if cell.counts}
    return AdaSDReport(
        geomean={
            system: _geomean([r.speedup for r in rows if r.method == system and (r.dataset, r.policy) in counted])
            for system in systems
        },
        with_memspec=_with_memspec(rows),
        share_thresholds=config.speculation.share_thresholds,
        prompts_per_dataset=max(len(dataset.tasks) for dataset in datasets),
        max_new_tokens=max_new_tokens,
        rows=tuple(rows),
    )


def _cells(config: Config, datasets: Sequence[DataSet], policy: str | None) -> list[_Cell]:
    if policy is not None:
        return [_Cell(dataset, policy, True) for dataset in datasets]
    names = {draft.name for draft in config.drafts}
    cells = []
    for dataset in datasets:
        if dataset.domain in names:
            cells.append(_Cell(dataset, f"static:{dataset.domain}", True))
        else:
            cells.append(_Cell(dataset, config.schedule.policy, True))
            if "general" in names and config.schedule.policy != GENERAL_STATIC:
                cells.append(_Cell(dataset, GENERAL_STATIC, False))
    return cells


async def _run(config: Config, cell: _Cell, systems: Sequence[str], max_new_tokens: int, progress: Progress) -> _Runs:
    runs: _Runs = {system: [] for system in systems}
    tasks = cell.dataset.tasks
    async with _engines(config, cell, systems) as engines:
        for system in systems:  # first touches of memory, caches of kernels
            await _generate(engines[system], system, cell, tasks[0].prompt, 4)
        for number, task in enumerate(tasks):
            progress(f"{cell.dataset.name} ({cell.policy})", number, len(tasks))
            shift = number % len(systems)  # nobody always comes first
            for system in (*systems[shift:], *systems[:shift]):
                result = await _generate(engines[system], system, cell, task.prompt, max_new_tokens)
                runs[system].append(result)
    return runs


@asynccontextmanager
async def _engines(config: Config, cell: _Cell, systems: Sequence[str]) -> AsyncIterator[Mapping[str, MemSpec]]:
    """Open one engine for all systems, and another for the draft alone."""
    async with MemSpec.open(config) as engine:
        engines = dict.fromkeys(systems, engine)
        if DRAFT not in systems:
            yield engines
            return
        name = cell.policy.removeprefix("static:") if cell.policy.startswith("static:") else config.drafts[0].name
        alone = replace(config, speculation=replace(config.speculation, method=f"draft:{name}"))
        async with MemSpec.open(alone) as draft:
            yield engines | {DRAFT: draft}


async def _generate(engine: MemSpec, system: str, cell: _Cell, prompt: str, max_new_tokens: int) -> GenerationResult:
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens}
    if system in METHODS:
        options |= {"method": system, "policy": cell.policy}
    elif system != DRAFT:
        options |= {"method": system}
    return await engine.generate(prompt, **options)


def _row(cell: _Cell, system: str, runs: _Runs, target: Runner, tokenizer: Tokenizer) -> Row:
    results = runs[system]
    metrics = [result.metrics.speculative_decoding for result in results]
    steps, drafted = sum(m.num_spec_steps for m in metrics), sum(m.num_draft_tokens for m in metrics)
    accepted = sum(m.num_accepted_draft_tokens for m in metrics)
    speed = _tokens_per_second(results)
    return Row(
        dataset=cell.dataset.name,
        method=system,
        policy=cell.policy,
        tokens_per_second=speed,
        drafted_per_step=drafted / steps if steps else 0.0,
        accepted_per_step=accepted / steps if steps else 0.0,
        acceptance_rate=accepted / drafted if drafted else 0.0,
        departure_share=sum(r.metrics.departures.num_tokens for r in results) / sum(len(r.token_ids) for r in results),
        lossless=all(result.lossless for result in results),
        speedup=speed / _tokens_per_second(runs[BASE]),
        quality=_quality(cell.dataset, results, runs[BASE], target, tokenizer),
    )


def _quality(
    dataset: DataSet,
    results: Sequence[GenerationResult],
    reference: Sequence[GenerationResult],
    target: Runner,
    tokenizer: Tokenizer,
) -> Quality:
    answers = [
        (task.request, result.token_ids) for task, result in zip(dataset.tasks, results, strict=True) if task.request
    ]
    likelihoods = [
        value
        for task, result in zip(dataset.tasks, results, strict=True)
        for value in log_likelihoods(target, tokenizer.encode(task.prompt).ids, result.token_ids)
    ]
    agreements = [agreement(r.token_ids, other.token_ids) for r, other in zip(results, reference, strict=True)]
    return Quality(
        task_accuracy=task_accuracy(answers, tokenizer) if answers else None,
        log_likelihood=sum(likelihoods) / len(likelihoods),
        agreement=sum(agreements) / len(agreements),
    )


def _tokens_per_second(results: Sequence[GenerationResult]) -> float:
    """Return the speed of steady-state decoding: the first token belongs to the prompt's encoding."""
    return sum(len(r.token_ids) - 1 for r in results) / sum(r.timing.decode_s for r in results)


def _with_memspec(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    base = [r.tokens_per_second for r in rows if (r.policy, r.method) == (GENERAL_STATIC, BASE)]
    if len(base) != 1:
        return {}
    datasets = {r.dataset for r in rows if r.policy == GENERAL_STATIC}
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.dataset in datasets and row.method in METHODS:
            found.setdefault(row.policy, {})[row.method] = row.tokens_per_second / base[0]
    return found


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
