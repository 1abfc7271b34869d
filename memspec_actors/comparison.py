"""Compare policies by what their generations report: real ones and replayed ones alike."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from memspec_actors.errors import UsageError
from memspec_actors.protocols.results import GenerationResult, Share

__all__ = [
    "BASE",
    "SHARES",
    "STRICT",
    "STRICT_DRAFT",
    "Outcome",
    "PolicyComparison",
    "Row",
    "compare_policies",
    "geomean",
]

BASE = "general-static"
STRICT_DRAFT = "general-strict"  # a general draft that got as much training as the specialists
STRICT = f"static:{STRICT_DRAFT}"
SHARES = ("desired", "fallback", "target_only", "catch_up", "prediction", "waited")  # as they are shown


class Outcome(NamedTuple):
    """One generation: in which run, of which data set's prompt, under which policy."""

    run: int
    dataset: str
    policy: str
    result: GenerationResult


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy did on one data set.

    ``tokens_per_second`` is all decoding but the prompt's encoding and its token, the geometric mean over runs, and
    ``normalized`` the same over the base policy's; ``steady_tokens_per_second`` leaves out what was decoded before the
    first draft was there, ``startup_share`` of decode time. ``latency_s`` is the mean time of a whole request,
    ``prediction_busy_share`` the processor time of ranking beside decoding, over decode time. ``switches``, ``loads``
    and ``wasted_loads`` (freed unused) are means per prompt.
    """

    dataset: str
    policy: str
    tokens_per_second: float
    normalized: float
    normalized_strict: float | None
    steady_tokens_per_second: float
    tokens_per_iteration: float
    share: Share
    startup_share: float
    prediction_busy_share: float
    switches: float
    loads: float
    wasted_loads: float
    latency_s: float


class PolicyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput over General-Static, and over the strict general draft if it ran; geometric means over data sets.

    ``steady`` is the paper's throughput: it leaves out the first draft's load, whatever was decoded meanwhile.
    """

    geomean: Mapping[str, float]
    geomean_strict: Mapping[str, float] | None
    steady: Mapping[str, float]
    steady_strict: Mapping[str, float] | None
    latency: Mapping[str, float]  # mean time of a request over the base policy's
    latency_strict: Mapping[str, float] | None
    rows: tuple[Row, ...]


def compare_policies(outcomes: Sequence[Outcome]) -> PolicyComparison:
    """Draw up the comparison; the base policy must be among the outcomes, the strict one may be.

    Raises UsageError for a data set of whose texts none has a second token.
    """
    datasets, policies = _distinct(outcomes, "dataset"), _distinct(outcomes, "policy")
    cells = {
        (dataset, policy): [each for each in outcomes if (each.dataset, each.policy) == (dataset, policy)]
        for dataset in datasets
        for policy in policies
    }
    speeds = {key: _throughput(cell, _Spent.decoding) for key, cell in cells.items()}
    strict = STRICT in policies
    rows = tuple(
        _row(dataset, policy, cells[dataset, policy], speeds, strict) for dataset in datasets for policy in policies
    )
    return PolicyComparison(
        geomean=_over(BASE, rows, policies, "tokens_per_second"),
        geomean_strict=_over(STRICT, rows, policies, "tokens_per_second") if strict else None,
        steady=_over(BASE, rows, policies, "steady_tokens_per_second"),
        steady_strict=_over(STRICT, rows, policies, "steady_tokens_per_second") if strict else None,
        latency=_over(BASE, rows, policies, "latency_s"),
        latency_strict=_over(STRICT, rows, policies, "latency_s") if strict else None,
        rows=rows,
    )


def _row(
    dataset: str, policy: str, cell: Sequence[Outcome], speeds: Mapping[tuple[str, str], float], strict: bool
) -> Row:
    results = [each.result for each in cell]
    scheduling = [result.scheduling for result in results]
    speed = speeds[dataset, policy]
    return Row(
        dataset=dataset,
        policy=policy,
        tokens_per_second=speed,
        normalized=speed / speeds[dataset, BASE],
        normalized_strict=speed / speeds[dataset, STRICT] if strict else None,
        steady_tokens_per_second=_throughput(cell, _Spent.steadily),
        tokens_per_iteration=_tokens_per_iteration(results),
        share=_share(results),
        startup_share=sum(each.startup_s for each in scheduling) / (_Spent.decoding(results).seconds or 1.0),
        prediction_busy_share=fmean(each.prediction_busy_share for each in scheduling),
        switches=fmean(each.switches for each in scheduling),
        loads=fmean(each.loads for each in scheduling),
        wasted_loads=fmean(each.wasted_loads for each in scheduling),
        latency_s=_latency(cell),
    )


class _Spent(NamedTuple):
    """Tokens, and the time that they took."""

    tokens: int
    seconds: float

    @classmethod
    def decoding(cls, results: Sequence[GenerationResult]) -> "_Spent":
        """Count all but the first tokens, which come out of the prompt's encoding."""
        return cls(_tokens(results), sum(result.timing.decode_s for result in results))

    @classmethod
    def steadily(cls, results: Sequence[GenerationResult]) -> "_Spent":
        """Count from where the first draft was there."""
        tokens, seconds = cls.decoding(results)
        startup = [result.scheduling for result in results]
        return cls(
            tokens - sum(each.startup_tokens for each in startup), seconds - sum(each.startup_s for each in startup)
        )


def _throughput(cell: Sequence[Outcome], spent: Callable[[Sequence[GenerationResult]], _Spent]) -> float:
    runs: dict[int, list[GenerationResult]] = {}
    for each in cell:
        runs.setdefault(each.run, []).append(each.result)
    if not all(map(_tokens, runs.values())):
        raise UsageError(
            f"data set {cell[0].dataset!r} has no throughput: all its texts end with their first token, which comes"
            f" out of the prompt's encoding; give prompts with longer answers, or a larger --max-new-tokens"
        )
    return geomean(tokens / seconds for tokens, seconds in map(spent, runs.values()))


def _tokens(results: Iterable[GenerationResult]) -> int:
    return sum(len(result.token_ids) - 1 for result in results)


def _tokens_per_iteration(results: Sequence[GenerationResult]) -> float:
    """Count from where the first draft was there; an iteration of the target alone gives one token."""
    drafts = [draft for result in results for draft in result.scheduling.drafts.values()]
    iterations, drafted = sum(draft.iterations for draft in drafts), sum(draft.tokens for draft in drafts)
    tokens, _ = _Spent.steadily(results)
    return tokens / max(iterations + tokens - drafted, 1)


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


def _over(base: str, rows: Sequence[Row], policies: Sequence[str], figure: str) -> dict[str, float]:
    """Give every policy's figure over that of ``base``, the geometric mean over the data sets."""
    of_base = {row.dataset: getattr(row, figure) for row in rows if row.policy == base}
    return {
        policy: geomean(getattr(row, figure) / of_base[row.dataset] for row in rows if row.policy == policy)
        for policy in policies
    }


def geomean(figures: Iterable[float]) -> float:
    """Return the geometric mean of numbers above 0."""
    return math.exp(fmean(math.log(figure) for figure in figures))


def _distinct(outcomes: Sequence[Outcome], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(each, field) for each in outcomes))
