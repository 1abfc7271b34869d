"""``memspec doctor``: what this machine offers and what is missing."""

import typer

from memspec_actors.cli.output import JsonOption, print_json

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(json: JsonOption = False) -> None:
    """Tell what this machine offers and what is missing; exit with 1 if something fails."""
    from memspec_actors.cli.doctor_checks import run_checks

    checks = list(run_checks())
    failed = any(check.status == "fail" for check in checks)
    if json:
        print_json({"ok": not failed, "checks": checks})
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False)
        for check in checks:
            found = f"{check.found}; {check.advice}" if check.advice else check.found
            table.add_row(Text(check.status, style=_COLOURS[check.status]), Text(check.name), Text(found))
        Console(highlight=False).print(table)
    if failed:
        raise typer.Exit(1)
