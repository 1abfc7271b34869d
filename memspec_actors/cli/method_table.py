"""How a comparison of methods looks on a terminal."""

from collections.abc import Mapping

from rich.table import Table

from memspec_actors.bench import methods_report
from memspec_actors.bench.methods_report import MethodsReport
from memspec_actors.bench.paper.claims import judge
from memspec_actors.bench.paper.evaluation import STUDIES
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.cli.output import Row, figures_table, wide_console

__all__ = ["print_methods"]

LEGEND = """\
* lossy: the text may differ from the target's own
draft and kept length: tokens drafted and accepted in an iteration; rate: kept of
drafted; lossy tokens: kept though the target's own were others; right: answers;
log p: of a token, under the target; alike: tokens in common with lossless text
"""


def print_methods(report: MethodsReport, finding: Finding) -> None:
    """Print a table for each data set, the means, the methods with and without MemSpec, and the goals."""
    console = wide_console()
    for dataset, policy in dict.fromkeys((row.dataset, row.policy) for row in report.rows):
        rows = [_figures(row) for row in report.rows if (row.dataset, row.policy) == (dataset, policy)]
        console.print(figures_table(rows, f"{dataset} ({policy})"), "")
    console.print(LEGEND)
    console.print(_speedups("over vanilla, geometric mean over the data sets", report.geomean), "")
    for policy, speedups in report.with_memspec.items():
        console.print(_speedups(f"mixed prompts, {policy}: over a general draft of fixed length", speedups), "")
    console.print(_goals(finding), "")
    console.print(f"{finding.wall_s:.0f} s, {finding.setting}")


def _figures(row: methods_report.Row) -> Row:
    accuracy = row.quality.task_accuracy
    return {
        "method": row.method if row.lossless else f"{row.method}*",
        "tok/s": f"{row.tokens_per_second:.0f}",
        "speed up": f"{row.speedup:.3f}",
        "draft length": f"{row.drafted_per_step:.2f}",
        "kept length": f"{row.accepted_per_step:.2f}",
        "rate": f"{row.acceptance_rate:.3f}",
        "lossy tokens": f"{row.departure_share:.1%}",
        "right": "" if accuracy is None else f"{accuracy:.3f}",
        "log p": f"{row.quality.log_likelihood:.2f}",
        "alike": f"{row.quality.agreement:.3f}",
    }


def _speedups(title: str, speedups: Mapping[str, float]) -> Table:
    table = figures_table([{"method": method, "speed-up": f"{value:.3f}"} for method, value in speedups.items()], title)
    table.min_width = len(title)
    return table


def _goals(finding: Finding) -> Table:
    table = Table("goals", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("ours", "paper", "goal"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", justify="right")
    (study,) = (each for each in STUDIES if each.name == finding.study)
    for claim in study.claims:
        verdict = judge(claim, finding)
        table.add_row(claim.says, claim.written(verdict.ours), claim.paper, claim.written_goal, verdict.text)
    return table
