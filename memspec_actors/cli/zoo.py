"""``memspec zoo``: the embedded models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.output import JsonOption, circumstances, print_json, progress_bars

if TYPE_CHECKING:
    from memspec_actors.predictor.build import ZooBudget

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


@app.command("build")
def build(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the models go; a build goes on where it was.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Toy sizes: every stage within a minute, useless models.")
    ] = False,
    texts: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A text file to mix into the training; repeat.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Train target, drafts and predictor from nothing: hours on a CPU."""
    from memspec_actors.predictor.build import build_for_zoo
    from memspec_actors.zoo.build import QUICK, Recipe
    from memspec_actors.zoo.build import build as run_stages

    with progress_bars() as progress:
        stages = run_stages(
            out,
            recipe=QUICK if quick else Recipe(),
            texts=texts or (),
            on_progress=lambda at: progress(at.stage, at.tokens, at.total_tokens),
        )
        evaluation = None
        if stages or not (out / "encoder" / "head.json").exists():  # a predictor is of the models it was trained for
            evaluation = build_for_zoo(out, progress, budget=_quick_budget() if quick else None)
    built = [*stages, *(["encoder"] if evaluation else [])]
    if json:
        print_json({"out": str(out), "built": built, "predictor": evaluation} | circumstances(_threads(), "float32"))
    else:
        typer.echo(f"built {', '.join(built) or 'nothing new'} in {out}")


def _quick_budget() -> "ZooBudget":
    from memspec_actors.predictor.build import ZooBudget
    from memspec_actors.predictor.pretrain import PretrainBudget
    from memspec_actors.predictor.training import TrainParams

    return ZooBudget(
        num_training_prompts=12,
        num_evaluation_prompts=6,
        max_new_tokens=48,
        hidden_size=32,
        pretraining=PretrainBudget(steps=5, batch_size=8),
        head=TrainParams(max_epochs=2),
    )


def _threads() -> int:
    import torch

    return torch.get_num_threads()
