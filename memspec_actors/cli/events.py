"""``memspec events``: inspect the event logs that ``memspec run --events FILE`` writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.output import JsonOption, print_json
from memspec_actors.output_files import write_whole

if TYPE_CHECKING:
    from memspec_actors.telemetry.reader import EventReader

__all__ = ["app"]

app = typer.Typer(help="Inspect event logs.", rich_markup_mode=None)

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="An event log, plain, .gz or .zst; rotated files are read too.")
]


OutOption = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")]


class _By(StrEnum):
    """What the rows of a summary are about."""

    request = "request"
    draft = "draft"
    domain = "domain"


@app.command("summary")
def summary(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="One event log or several, summed up as one.")],
    by: Annotated[_By, typer.Option(help="What the table has a row for; JSON has them all.")] = _By.draft,
    json: JsonOption = False,
) -> None:
    """Recompute every figure: speed, acceptance, loads and others."""
    from memspec_actors.telemetry.summary import summarize

    with _readers(*logs) as readers:
        found = summarize(*readers)
    if json:
        print_json(found)
    else:
        from memspec_actors.cli.events_summary import print_summary

        print_summary(found, by.value)


@app.command("audit")
def audit(log: LogArgument, json: JsonOption = False) -> None:
    """Check the eight invariants; exit with 1 if one is broken."""
    from memspec_actors.cli.events_audit import print_audit
    from memspec_actors.telemetry.audit import audit as audit_log

    with _readers(log) as (reader,):
        found = audit_log(reader)
    if json:
        print_json(found)
    else:
        print_audit(found)
    if found.violations:
        raise typer.Exit(1)


@app.command("compare")
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The event log to compare with.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The event log to compare.")],
    json: JsonOption = False,
) -> None:
    """Put two runs side by side: what changed, where time went."""
    from memspec_actors.telemetry.compare import compare as compare_summaries
    from memspec_actors.telemetry.summary import summarize

    with _readers(a, b) as readers:
        found = compare_summaries(*map(summarize, readers))
    if json:
        print_json(found)
    else:
        from memspec_actors.cli.events_compare import print_comparison

        print_comparison(found, a.name, b.name)


@app.command("timeline")
def timeline(log: LogArgument, out: OutOption) -> None:
    """Draw what happened when, as .html to zoom into, .svg or .png."""
    from memspec_actors.errors import UsageError
    from memspec_actors.telemetry.storyteller import tell_story
    from memspec_actors.telemetry.timeline import timeline_page, timeline_picture

    kind = out.suffix.lower()
    if kind not in (".html", ".svg", ".png"):
        raise UsageError(f"{out} must end in .html, .svg or .png")
    with _readers(log) as (reader,):
        story = tell_story(reader)
    if kind == ".html":
        write_whole(out, timeline_page(story).encode())
    else:
        write_whole(out, timeline_picture(story, "svg" if kind == ".svg" else "png"))


@app.command("trace")
def trace(log: LogArgument, out: OutOption) -> None:
    """Write a trace for Perfetto (ui.perfetto.dev)."""
    import msgspec

    from memspec_actors.telemetry.storyteller import tell_story
    from memspec_actors.telemetry.trace import chrome_trace

    with _readers(log) as (reader,):
        story = tell_story(reader)
    write_whole(out, msgspec.json.encode(chrome_trace(story)))


@app.command("tail")
def tail(
    log: Annotated[str, typer.Argument(metavar="LOG|URL", help="An event log, or the address of a daemon.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written from now on; a daemon's always.")
    ] = False,
    number: Annotated[
        int, typer.Option("--number", "-n", min=0, help="Begin with so many of a log's last records.")
    ] = 20,
    event: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these events; repeat.")] = None,
    actor: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these actors; repeat.")] = None,
    request: Annotated[str, typer.Option(metavar="ID", help="Only this request; the first letters do.")] = "",
    api_key: Annotated[str | None, typer.Option(envvar="MEMSPEC_API_KEY", help="What the daemon asks for.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the records as they are, one a line.")] = False,
) -> None:
    """Show the last records, one line each, and those to come.

    A log is followed through its rotation. A daemon tells over HTTP what happens from now on.
    """
    from memspec_actors.cli.events_tail import Choice
    from memspec_actors.cli.events_tail import tail as show

    choice = Choice(events=tuple(event or ()), actors=tuple(actor or ()), request=request)
    show(log, choice, number=number, follow=follow, json=json, api_key=api_key)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of every record."""
    from memspec_actors.telemetry.schema import event_schema

    print_json(event_schema())


@contextmanager
def _readers(*logs: Path) -> "Iterator[list[EventReader]]":
    """Give readers of logs, and warn in the end of records in them that this version cannot read."""
    from memspec_actors.telemetry.reader import EventReader

    readers = [EventReader(log, must_hold_records=True) for log in logs]
    yield readers
    for reader in readers:
        if reader.first_unknown is not None:
            what = f"records of another version left out: {reader.unknown}; the first: {reader.first_unknown}"
            typer.echo(f"memspec: warning: {what}", err=True)
