"""What commands print: one JSON object, tables, progress on standard error."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memspec_actors.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "JsonOption",
    "Row",
    "circumstances",
    "figures_table",
    "print_json",
    "progress_bars",
    "spinner",
    "wide_console",
]

Row = Mapping[str, str]  # text by heading

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]


def print_json(value: Any) -> None:
    """Print ``value`` (a msgspec struct, or anything it encodes) as one line of JSON."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def circumstances(threads: int, dtype: str) -> dict[str, Any]:
    """Say under what circumstances figures were measured, to be printed beside them."""
    from importlib.metadata import version

    versions = {name: version(name) for name in ("memspec-actors", "torch")}
    return {"versions": versions, "threads": threads, "dtype": dtype, "emulated": []}


def wide_console() -> "Console":
    """Return a console as wide as the terminal; into a file or a pipe, tables are not squeezed."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def figures_table(rows: Sequence[Row], title: str | None = None) -> "Table":
    """Lay rows of equal keys out under these; the first cell names a row, the others hold figures.

    Headings are wrapped, so that seven columns of figures fit on a terminal of 80.
    """
    from rich.table import Table

    table = Table(title=title, box=None, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    name, *headings = rows[0]
    table.add_column(name, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row.values())
    return table


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Give a callback that draws one bar per thing being done; off a terminal it draws nothing."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield progress


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show on a terminal that ``what`` is going on."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(what) if console.is_terminal else nullcontext():
        yield
