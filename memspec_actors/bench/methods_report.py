"""What a comparison of methods found: rows by data set and method, and the figures that there are goals for."""

from collections.abc import Mapping, Sequence

import msgspec

from memspec_actors.bench.datasets import MIXED

__all__ = [
    "BASE", "GENERAL_STATIC", "MAX_LOSS", "MethodsReport", "Quality", "Row", "best_speedup", "fastest", "losses",
    "scalars",
]  # fmt: skip

BASE = "vanilla"
GENERAL_STATIC = "general-static"
LOSSY = ("adasd", "typical")
MAX_LOSS = 0.018  # of right answers, as in the paper
FASTER_STOPS = ("gen-only", "gain-only")


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


class MethodsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison, by method: speed-ups over vanilla, and the share of all answers that are right.

    ``geomean`` is over the data sets; ``best`` is that of the best data set, of those on which a method gives no fewer
    right answers than MAX_LOSS allows, 0 if there is none. ``with_memspec`` gives the mixed prompts' speed-up over a
    general draft of fixed length, by policy and method.
    """

    geomean: Mapping[str, float]
    best: Mapping[str, float]
    accuracy: Mapping[str, float]
    with_memspec: Mapping[str, Mapping[str, float]]
    share_thresholds: bool
    prompts_per_dataset: int
    max_new_tokens: int
    rows: tuple[Row, ...]


def best_speedup(rows: Sequence[Row], base: Sequence[Row]) -> float:
    """Return the speed-up on the best data set of those that lose few right answers; ``base`` are vanilla's rows."""
    return max((row.speedup for row, own in zip(rows, base, strict=True) if _loss(row, own) <= MAX_LOSS), default=0.0)


def fastest(report: MethodsReport, method: str) -> Row:
    """Return a method's fastest row, right or wrong. Raises LookupError if it was not measured."""
    return max(_rows(report, method), key=lambda row: row.speedup)


def losses(report: MethodsReport, method: str) -> dict[str, float]:
    """Return the right answers that a method loses on each data set, as a share of all. Raises LookupError as above."""
    pairs = zip(_rows(report, method), _rows(report, BASE), strict=True)
    return {row.dataset: _loss(row, base) for row, base in pairs}


def _rows(report: MethodsReport, method: str) -> list[Row]:
    found = [row for row in report.rows if row.method == method and row.policy != GENERAL_STATIC]
    if not found:
        raise LookupError(method)
    return found


def _loss(row: Row, base: Row) -> float:
    ours, theirs = row.quality.task_accuracy, base.quality.task_accuracy
    return 0.0 if ours is None or theirs is None else theirs - ours


def scalars(report: MethodsReport) -> dict[str, float]:
    """Return the figures that there are goals for, as far as they were measured."""
    found: dict[str, float] = {}
    for method in LOSSY:
        if {method, "assistedgen"} <= report.geomean.keys():
            found[f"{method} over assistedgen"] = report.geomean[method] / report.geomean["assistedgen"]
        if {method, BASE} <= report.accuracy.keys():
            found[f"{method}: accuracy lost"] = report.accuracy[BASE] - report.accuracy[method]
    mixed = {row.method: row for row in report.rows if row.dataset == MIXED and row.policy != GENERAL_STATIC}
    return found | {f"{stop} with memspec": mixed[stop].speedup for stop in FASTER_STOPS if stop in mixed}
