"""``memspec predictor``: trace, train and judge the ranking of drafts."""

from pathlib import Path
from typing import Annotated

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.output import JsonOption, print_json, progress_bars

__all__ = ["app"]

app = typer.Typer(help="Trace, train and judge the ranking of drafts.", rich_markup_mode=None)


@app.command("collect")
def collect(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The trace file to write.")],
    prompts: Annotated[
        str,
        typer.Option(metavar="SOURCE", help="A .jsonl or text file, or the embedded generator: zoo:train, zoo:eval."),
    ] = "zoo:train",
    limit: Annotated[int | None, typer.Option(help="Take so many prompts at most.")] = None,
    config: ConfigOption = None,
    max_new_tokens: Annotated[int, typer.Option(help="Let the target write at most so many tokens a prompt.")] = 320,
    k: Annotated[int, typer.Option("--k", help="Cut accepted runs at this draft length.")] = 5,
    batch_size: Annotated[int, typer.Option(help="Prompts that are generated together.")] = 32,
    json: JsonOption = False,
) -> None:
    """Trace what every draft would get accepted in the target's own text."""
    chosen = load_config(config)

    from memspec_actors.models.loadout import model_directory
    from memspec_actors.predictor.collect import collect as trace
    from memspec_actors.predictor.prompts import read_prompts

    with progress_bars() as progress:
        figures = trace(
            model_directory(chosen.target.model),
            {draft.name: model_directory(draft.model) for draft in chosen.drafts},
            read_prompts(prompts, limit=limit),
            out,
            max_new_tokens=max_new_tokens,
            k=k,
            batch_size=batch_size,
            progress=progress,
        )
    _print_figures(figures, json)


def _print_figures(figures: dict[str, object], json: bool) -> None:
    if json:
        print_json(figures)
        return
    for name, value in figures.items():
        typer.echo(f"{name}: {value}")
