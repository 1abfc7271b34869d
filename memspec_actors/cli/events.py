"""``memspec events``: inspect the event logs that ``memspec run --events FILE`` writes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from memspec_actors.cli.output import JsonOption, print_json

__all__ = ["app"]

app = typer.Typer(help="Inspect event logs.", rich_markup_mode=None)

LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="An event log, plain, .gz or .zst; rotated files are read too.")
]


class By(StrEnum):
    """What the rows of a summary are about."""

    request = "request"
    draft = "draft"
    domain = "domain"


@app.command("summary")
def summary(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="One event log or several, summed up as one.")],
    by: Annotated[By, typer.Option(help="What the table has a row for; JSON has them all.")] = By.draft,
    json: JsonOption = False,
) -> None:
    """Recompute every figure: speed, acceptance, shares of time, loads, evictions, switches."""
    from memspec_actors.telemetry.reader import EventReader
    from memspec_actors.telemetry.summary import summarize

    found = summarize(*(EventReader(log, must_hold_records=True) for log in logs))
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
    from memspec_actors.telemetry.reader import EventReader

    found = audit_log(EventReader(log, must_hold_records=True))
    if json:
        print_json(found)
    else:
        print_audit(found)
    if found.violations:
        raise typer.Exit(1)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of every record."""
    from memspec_actors.telemetry.schema import event_schema

    print_json(event_schema())
