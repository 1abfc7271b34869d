"""A comparison of methods as tables: speed, what was drafted and accepted, quality."""

from collections.abc import Callable, Mapping

from memspec_actors.bench.methods_report import MethodsReport, Row
from memspec_actors.bench.paper.table import Table

__all__ = ["method_tables"]


def method_tables(report: MethodsReport) -> list[Table]:
    """Lay the comparison out: methods down, data sets across; lossy methods have an asterisk."""
    means = {method: (f"{speedup:.3f}",) for method, speedup in report.geomean.items()}
    shares = {method: (f"{share:.1%}",) for method, share in report.accuracy.items()}
    return [
        _table(report, "Tokens per second (speed-up over vanilla)", _speed, "geometric mean", means),
        _table(report, "Tokens accepted of tokens drafted in an iteration", _accepted),
        _table(report, "Right answers (tokens kept that were not the target's own)", _right, "all", shares),
        _table(report, "Log-likelihood per token; agreement with the lossless text", _likelihood),
    ]


def _table(
    report: MethodsReport,
    caption: str,
    write: Callable[[Row], str],
    overall: str | None = None,
    over_all: Mapping[str, tuple[str]] | None = None,
) -> Table:
    cells = {(row.method, row.dataset, row.policy): write(row) for row in report.rows}
    columns = list(dict.fromkeys((row.dataset, row.policy) for row in report.rows))
    lossy = {row.method for row in report.rows if not row.lossless}
    last: Mapping[str, tuple[str]] = over_all or {}
    rows = tuple(
        (
            f"{method}*" if method in lossy else method,
            *(cells[method, *column] for column in columns),
            *last.get(method, ()),
        )
        for method in report.geomean
    )
    heads = (f"{dataset} ({policy})" for dataset, policy in columns)
    return Table(caption, ("method", *heads, *((overall,) if overall and last else ())), rows)


def _speed(row: Row) -> str:
    return f"{row.tokens_per_second:.0f} ({row.speedup:.2f})"


def _accepted(row: Row) -> str:
    return f"{row.accepted_per_step:.1f} of {row.drafted_per_step:.1f}"


def _right(row: Row) -> str:
    accuracy = row.quality.task_accuracy
    return f"{'–' if accuracy is None else f'{accuracy:.1%}'} ({row.departure_share:.1%})"


def _likelihood(row: Row) -> str:
    return f"{row.quality.log_likelihood:.3f}; {row.quality.agreement:.1%}"
