"""``memspec doctor``: what this machine offers and what is missing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.output import JsonOption, print_json, spinner
from memspec_actors.output_files import write_whole

if TYPE_CHECKING:
    from memspec_actors.simulation.profile import DeviceProfile

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    profile: Annotated[
        bool, typer.Option("--profile", help="Measure instead what decoding costs here: a profile for simulations.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the profile to a file.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Tell what this machine offers and what is missing. Exit with 1 if something fails."""
    chosen = load_config(config) if profile or config is not None else None
    if profile and chosen is not None:
        from memspec_actors.simulation.measure import measure_profile

        with spinner("measuring"):
            measured = measure_profile(chosen)
        _print_profile(measured, out, json)
        return
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


def _print_profile(profile: "DeviceProfile", out: Path | None, json: bool) -> None:
    import msgspec
    import tomli_w

    values = msgspec.to_builtins(profile, str_keys=True)
    text = tomli_w.dumps({key: value for key, value in values.items() if value is not None})
    if out is not None:
        write_whole(out, text.encode())
    if json:
        print_json(values)
    elif out is None:
        typer.echo(text, nl=False)
