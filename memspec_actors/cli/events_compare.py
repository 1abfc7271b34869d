"""How a comparison of two runs looks on a terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from memspec_actors.cli.output import wide_console
from memspec_actors.telemetry.compare import Change, Comparison

__all__ = ["print_comparison"]

NOTABLE = 0.05  # a smaller relative change is not marked


def print_comparison(found: Comparison, a: str, b: str) -> None:
    """Print the figures of both runs, then what a token's time was spent on in each."""
    console = wide_console()
    console.print(_table("", a, b, found.figures))
    console.print()
    console.print(_table("ms per token", a, b, found.ms_per_token))


def _table(title: str, a: str, b: str, changes: Iterable[Change]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title)
    for name in (a, b, "b / a"):
        table.add_column(name, justify="right")
    for change in changes:
        ratio = "" if change.ratio is None else f"{change.ratio:.2f}"
        style = "bold" if change.ratio is not None and abs(change.ratio - 1.0) > NOTABLE else ""
        table.add_row(Text(change.name), f"{change.a:.4g}", f"{change.b:.4g}", Text(ratio, style=style))
    return table
