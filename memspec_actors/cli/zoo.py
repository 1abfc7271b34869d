"""``memspec zoo``: the embedded models."""

from typing import Annotated

import typer

from memspec_actors.cli.output import JsonOption, print_json

__all__ = ["app"]

app = typer.Typer(help="The embedded models.", rich_markup_mode=None)


@app.command("list")
def list_models(json: JsonOption = False) -> None:
    """List the embedded models, their sizes and directories."""
    from memspec_actors import zoo

    sizes = {name: sum(file.stat().st_size for file in zoo.path(name).glob("*.safetensors")) for name in zoo.names()}
    if json:
        print_json([{"name": name, "bytes": size, "path": str(zoo.path(name))} for name, size in sizes.items()])
        return
    for name, size in sizes.items():
        typer.echo(f"{name:16} {size / 1e6:7.1f} MB  {zoo.path(name)}")


@app.command("path")
def path(name: Annotated[str, typer.Argument(metavar="NAME", help="As in `memspec zoo list`.")]) -> None:
    """Print the Hugging Face directory of an embedded model."""
    from memspec_actors import zoo

    typer.echo(str(zoo.path(name)))
