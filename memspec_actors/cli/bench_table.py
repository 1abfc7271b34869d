"""How comparisons look on a terminal."""

from collections.abc import Mapping

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from memspec_actors.bench.adasd import AdaSDReport, Row

__all__ = ["print_adasd"]

FILE_WIDTH = 120  # where it is no terminal
COLUMNS = ("tokens/s", "speed-up", "drafted", "accepted", "rate", "departed", "accuracy", "log p", "agreement")


def print_adasd(report: AdaSDReport) -> None:
    """Print a table for each data set, the geometric means, and the methods with and without MemSpec."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    for dataset, policy in dict.fromkeys((row.dataset, row.policy) for row in report.rows):
        table = Table("method", title=f"{dataset} ({policy})", title_justify="left", box=SIMPLE)
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for row in report.rows:
            if (row.dataset, row.policy) == (dataset, policy):
                table.add_row(*_cells(row))
        console.print(table)
    console.print("* lossy: the text may differ from the target's own")
    console.print(_pairs("speed-up over vanilla, geometric mean over the data sets", report.geomean))
    for policy, speedups in report.with_memspec.items():
        console.print(_pairs(f"mixed prompts, {policy}: over a general draft of fixed length", speedups))


def _cells(row: Row) -> list[str]:
    accuracy = row.quality.task_accuracy
    return [
        row.method if row.lossless else f"{row.method}*",
        f"{row.tokens_per_second:.1f}",
        f"{row.speedup:.3f}",
        f"{row.drafted_per_step:.2f}",
        f"{row.accepted_per_step:.2f}",
        f"{row.acceptance_rate:.3f}",
        f"{row.departure_share:.1%}",
        "" if accuracy is None else f"{accuracy:.3f}",
        f"{row.quality.log_likelihood:.3f}",
        f"{row.quality.agreement:.3f}",
    ]


def _pairs(title: str, values: Mapping[str, float]) -> Table:
    table = Table("method", title=title, title_justify="left", box=SIMPLE)
    table.add_column("speed-up", justify="right")
    for method, value in values.items():
        table.add_row(method, f"{value:.3f}")
    return table
