"""Compare the systems of the AdaSD paper's tables, interleaved prompt by prompt on the same engine."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from memspec_actors.bench.datasets import DataSet
from memspec_actors.bench.methods_report import BASE, GENERAL_STATIC, MethodsReport, Row, best_speedup
from memspec_actors.bench.quality import Answer, Judge, answered, task_accuracy
from memspec_actors.comparison import geomean
from memspec_actors.config import Config, EventsConfig
from memspec_actors.engine import MemSpec
from memspec_actors.methods import METHODS
from memspec_actors.progress import Progress
from memspec_actors.protocols.results import GenerationResult

__all__ = ["compare"]

DRAFT = "draft"  # the draft alone
SYSTEMS = (*METHODS, "target", DRAFT)


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
    max_new_tokens: int,
    progress: Progress,
) -> MethodsReport:
    """Decode every prompt with every system.

    Without a ``policy`` a data set of one domain is decoded with the draft of its domain, any other with the configured
    policy, and mixed prompts under ``general-static`` too. With ``config.speculation.share_thresholds`` what is learned
    is kept from prompt to prompt, through all data sets.
    """
    judge = Judge(config)
    rows: list[Row] = []
    counted: list[Row] = []
    answers: dict[str, list[Answer]] = {system: [] for system in SYSTEMS}
    cells = _cells(config, datasets, policy)
    async with MemSpec.open(config) as engine:
        for number, cell in enumerate(cells):
            progress("data sets", number, len(cells))
            runs = await _run(engine, cell, max_new_tokens, progress)
            for system in SYSTEMS:
                rows.append(_row(cell, system, runs, judge))
                if cell.counts:
                    counted.append(rows[-1])
                    answers[system] += answered(cell.dataset, runs[system])
    of = {system: [row for row in counted if row.method == system] for system in SYSTEMS}
    return MethodsReport(
        geomean={system: geomean(row.speedup for row in found) for system, found in of.items()},
        best={system: best_speedup(found, of[BASE]) for system, found in of.items()},
        accuracy={system: task_accuracy(given, judge.tokenizer) for system, given in answers.items() if given},
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


async def _run(engine: MemSpec, cell: _Cell, max_new_tokens: int, progress: Progress) -> _Runs:
    runs: _Runs = {system: [] for system in SYSTEMS}
    tasks = cell.dataset.tasks
    async with _engines(engine, cell) as engines:
        for system in SYSTEMS:  # first touches of memory, caches of kernels
            await _generate(engines[system], system, cell, tasks[0].prompt, 4)
        for number, task in enumerate(tasks):
            progress(f"{cell.dataset.name} ({cell.policy})", number, len(tasks))
            shift = number % len(SYSTEMS)  # nobody always comes first
            for system in (*SYSTEMS[shift:], *SYSTEMS[:shift]):
                result = await _generate(engines[system], system, cell, task.prompt, max_new_tokens)
                runs[system].append(result)
    return runs


@asynccontextmanager
async def _engines(engine: MemSpec, cell: _Cell) -> AsyncIterator[Mapping[str, MemSpec]]:
    """Take one engine for all systems but the draft alone, and open another for that one."""
    config = engine.config
    name = cell.policy.removeprefix("static:") if cell.policy.startswith("static:") else config.drafts[0].name
    method = replace(config.speculation, method=f"draft:{name}")
    alone = replace(config, speculation=method, events=EventsConfig())  # an event log is one engine's
    async with MemSpec.open(alone) as draft:
        yield dict.fromkeys(SYSTEMS, engine) | {DRAFT: draft}


async def _generate(engine: MemSpec, system: str, cell: _Cell, prompt: str, max_new_tokens: int) -> GenerationResult:
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens}
    if system in METHODS:
        options |= {"method": system, "policy": cell.policy}
    elif system != DRAFT:
        options |= {"method": system}
    return await engine.generate(prompt, **options)


def _row(cell: _Cell, system: str, runs: _Runs, judge: Judge) -> Row:
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
        quality=judge.quality(cell.dataset, results, runs[BASE]),
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
