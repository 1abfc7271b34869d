"""The tree of commands. Nothing heavy is imported before a command runs: ``--help`` must answer at once."""

import os
from typing import Annotated

import typer

from memspec_actors.cli import bench, config, doctor, drafts, events, predictor, run, serve, simulate, zoo
from memspec_actors.cli.exit_codes import DEBUG_VARIABLE

__all__ = ["app"]

app = typer.Typer(
    name="memspec",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},  # those of every command below
)
app.command("run")(run.run)
app.command("serve")(serve.serve)
app.command("simulate")(simulate.simulate)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")
app.add_typer(drafts.app, name="drafts")
app.add_typer(zoo.app, name="zoo")
app.add_typer(predictor.app, name="predictor")
app.add_typer(events.app, name="events")
app.add_typer(bench.app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"memspec {version('memspec-actors')}")
        raise typer.Exit


@app.callback()
def memspec(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (also MEMSPEC_DEBUG=1).")] = False,
) -> None:
    """Speculative decoding with more drafts than fast memory holds."""
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
