"""Compare policies by what their generations report: real ones and replayed ones alike."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from memspec_actors.protocols.results import GenerationResult, Share

__all__ = ["BASE", "STRICT", "Outcome", "PolicyComparison", "Row", "compare_policies"]

BASE = "general-static"
STRICT = "static:general-strict"  # a general draft that got as much training as the specialists


class Outcome(NamedTuple):
    """One generation: in which run, of which data set's prompt, under which policy."""

    run: int
    dataset: str
    policy: str
    result: GenerationResult


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy did on one data set.

    ``tokens_per_second`` is steady-state decoding (the prompt's encoding and its token excluded), the geometric mean
    over runs, and ``normalized`` the same over the base policy's; ``latency_s`` is the mean time of a whole request.
    ``switches``, ``loads`` and ``wasted_loads`` (freed unused) are means per prompt.
    """

    dataset: str
    policy: str
    tokens_per_second: float
    normalized: float
    normalized_strict: float | None
    tokens_per_iteration: float
    share: Share
    switches: float
    loads: float
    wasted_loads: float
    latency_s: float


class PolicyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput over General-Static, and over the strict general draft if it ran; geometric means over data sets."""

    geomean: Mapping[str, float]
    geomean_strict: Mapping[str, float] | None
    latency: Mapping[str, float]  # mean time of a request over the base policy's
    rows: tuple[Row, ...]


def compare_policies(outcomes: Sequence[Outcome]) -> PolicyComparison:
    """Draw up the comparison; the base policy must be among the outcomes, the strict one may be."""
    datasets, policies = _distinct(outcomes, "dataset"), _distinct(outcomes, "policy")
    cells = {
        (dataset, policy): [each for each in outcomes if (each.dataset, each.policy) == (dataset, policy)]
        for dataset in datasets
        for policy in policies
    }
    speeds = {key: _throughput(cell) for key, cell in cells.items()}
    strict = STRICT in policies
    rows = tuple(
        _row(dataset, policy, cells[dataset, policy], speeds, strict) for dataset in datasets for policy in policies
    )
    return PolicyComparison(
        geomean=_geomeans(rows, policies, lambda row: row.normalized),
        geomean_strict=_geomeans(rows, policies, lambda row: row.normalized_strict or 0.0) if strict else None,
        latency=_geomeans(rows, policies, lambda row: row.latency_s / _latency(cells[row.dataset, BASE])),
        rows=rows,
    )


def _row(
    dataset: str, policy: str, cell: Sequence[Outcome], speeds: Mapping[tuple[str, str], float], strict: bool
) -> Row:
    scheduling = [each.result.scheduling for each in cell]
    speed = speeds[dataset, policy]
    return Row(
        dataset=dataset,
        policy=policy,
        tokens_per_second=speed,
        normalized=speed / speeds[dataset, BASE],
        normalized_strict=speed / speeds[dataset, STRICT] if strict else None,
        tokens_per_iteration=_tokens_per_iteration([each.result for each in cell]),
        share=_share([each.result for each in cell]),
        switches=fmean(each.switches for each in scheduling),
        loads=fmean(each.loads for each in scheduling),
        wasted_loads=fmean(each.wasted_loads for each in scheduling),
        latency_s=_latency(cell),
    )


def _throughput(cell: Sequence[Outcome]) -> float:
    runs: dict[int, list[GenerationResult]] = {}
    for each in cell:
        runs.setdefault(each.run, []).append(each.result)
    return _geomean(_tokens(results) / _decode_s(results) for results in runs.values())


def _tokens(results: Iterable[GenerationResult]) -> int:
    return sum(len(result.token_ids) - 1 for result in results)  # the first one comes out of the prompt's encoding


def _decode_s(results: Iterable[GenerationResult]) -> float:
    return sum(result.timing.decode_s for result in results)


def _tokens_per_iteration(results: Sequence[GenerationResult]) -> float:
    drafts = [draft for result in results for draft in result.scheduling.drafts.values()]
    iterations, tokens = sum(draft.iterations for draft in drafts), sum(draft.tokens for draft in drafts)
    plain = _tokens(results) - tokens  # an iteration of the target alone gives one token
    return _tokens(results) / max(iterations + plain, 1)


def _share(results: Sequence[GenerationResult]) -> Share:
    """Average the split of decode time, each generation by its length."""
    weights = [result.timing.decode_s for result in results]
    total = sum(weights) or 1.0
    return Share(
        **{
            kind: sum(w * getattr(r.scheduling.share, kind) for w, r in zip(weights, results, strict=True)) / total
            for kind in Share.__struct_fields__
        }
    )


def _latency(cell: Sequence[Outcome]) -> float:
    return fmean(each.result.timing.total_s for each in cell)


def _geomeans(rows: Sequence[Row], policies: Sequence[str], figure: Callable[[Row], float]) -> dict[str, float]:
    return {policy: _geomean(figure(row) for row in rows if row.policy == policy) for policy in policies}


def _geomean(figures: Iterable[float]) -> float:
    return math.exp(fmean(math.log(figure) for figure in figures))


def _distinct(outcomes: Sequence[Outcome], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(each, field) for each in outcomes))
