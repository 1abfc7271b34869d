"""Draw a comparison: speed-ups by data set and method."""

from pathlib import Path
from typing import TYPE_CHECKING

from memspec_actors.bench.methods_report import BASE, MethodsReport
from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.methods import METHODS
from memspec_actors.output_files import check_output, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_figure", "check_plotting", "draw", "draw_speedups"]


def check_plotting() -> None:
    """Raise ConfigError if matplotlib is not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError("figures need matplotlib; install memspec-actors[plots]") from error


def check_figure(path: Path) -> None:
    """Raise UsageError, before the work, if no figure can be written to ``path``."""
    check_plotting()
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in kinds:
        raise UsageError(f"the figure {path} must end in one of .{', .'.join(kinds)}")
    check_output(path)


def draw(report: MethodsReport, path: Path) -> None:
    """Write a bar chart of speed-ups over vanilla to ``path``; its ending tells the format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 + 1.4 * len(_cells(report)), 4.0), layout="constrained")
    draw_speedups(figure.add_subplot(), report)
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def draw_speedups(axes: "Axes", report: MethodsReport) -> None:
    """Draw a group of bars for every data set; the models alone, which draft nothing, are left out."""
    cells = _cells(report)
    methods = [method for method in report.geomean if method in METHODS and method != BASE]
    speedups = {(row.dataset, row.policy, row.method): row.speedup for row in report.rows}
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        places = [index + (number + 0.5) * width - 0.4 for index in range(len(cells))]
        axes.bar(places, [speedups[*cell, method] for cell in cells], width, label=method)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(cells)), [f"{dataset}\n{policy}" for dataset, policy in cells], fontsize=8)
    axes.set_ylabel("speed-up over vanilla")
    axes.legend(fontsize=7, ncols=3)


def _cells(report: MethodsReport) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.dataset, row.policy) for row in report.rows))
