"""How comparisons look on a terminal."""

from collections.abc import Mapping

from rich.box import SIMPLE
from rich.table import Table

from memspec_actors.bench.methods_report import MethodsReport, Row
from memspec_actors.bench.paper.claims import judge
from memspec_actors.bench.paper.evaluation import STUDIES
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.cli.output import wide_console

__all__ = ["print_methods"]

COLUMNS = ("tokens/s", "speed-up", "drafted", "accepted", "rate", "departed", "accuracy", "log p", "agreement")


def print_methods(report: MethodsReport, finding: Finding) -> None:
    """Print a table for each data set, the means, the methods with and without MemSpec, and the goals."""
    console = wide_console()
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
    console.print(_goals(finding))
    console.print(f"{finding.wall_s:.0f} s, {finding.setting}")


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
    table = Table("method", title=title, title_justify="left", box=SIMPLE, min_width=len(title))
    table.add_column("speed-up", justify="right")
    for method, value in values.items():
        table.add_row(method, f"{value:.3f}")
    return table


def _goals(finding: Finding) -> Table:
    table = Table("", title="goals", title_justify="left", box=SIMPLE)
    for column in ("ours", "paper", "goal", "verdict"):
        table.add_column(column, justify="right")
    (study,) = (each for each in STUDIES if each.name == finding.study)
    for claim in study.claims:
        verdict = judge(claim, finding)
        table.add_row(claim.says, claim.written(verdict.ours), claim.paper, claim.written_goal, verdict.text)
    return table
