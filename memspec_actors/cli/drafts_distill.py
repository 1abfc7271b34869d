"""``memspec drafts distill``: make a domain draft from a general one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.output import JsonOption, circumstances, print_json, progress_bars, wide_console

if TYPE_CHECKING:
    from memspec_actors.drafts.settings import DistillReport
    from memspec_actors.models.dtypes import DtypeName
    from memspec_actors.predictor.prompts import Prompt

__all__ = ["distill"]

DOMAIN_PROMPTS = 200


def distill(
    target: Annotated[str, typer.Option(metavar="T", help='The target: a directory, an id on the hub or "zoo".')],
    draft: Annotated[
        str, typer.Option("--from", metavar="D", help='The draft to begin with: a directory, an id or "zoo:NAME".')
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the new draft goes; an interrupted run goes on there.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Prompts to learn from, .jsonl or text, one a line; repeat."),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(help="Instead of --data: requests of this domain by the embedded models' generator.")
    ] = None,
    num_prompts: Annotated[
        int | None, typer.Option(min=1, help="Learn from so many prompts at most (of a --domain: 200).")
    ] = None,
    held_out: Annotated[
        int, typer.Option(min=1, help="Keep so many other prompts back, to measure acceptance on.")
    ] = 20,
    max_new_tokens: Annotated[int, typer.Option(help="Let the target answer at this length at most.")] = 128,
    temperature: Annotated[float, typer.Option(help="Sample the answers to learn from; 0 is greedy.")] = 0.0,
    epochs: Annotated[int, typer.Option(help="Go over the answers so many times.")] = 5,
    batch_tokens: Annotated[int, typer.Option(help="Learn from about so many tokens at a step.")] = 1024,
    learning_rate: Annotated[float | None, typer.Option(help="Without it 0.25 divided by the draft's width.")] = None,
    logits_weight: Annotated[
        float,
        typer.Option(help="Share of the loss that compares distributions; the rest compares the answers' tokens."),
    ] = 0.5,
    top_k: Annotated[int, typer.Option(help="Compare so many of the target's likeliest tokens; 0 is all.")] = 32,
    dtype: Annotated[str, typer.Option(help="What the target runs in, as in [target] dtype.")] = "float32",
    threads: Annotated[int, typer.Option(help="Compute with so many threads.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Train the same draft again.")] = 0,
    json: JsonOption = False,
) -> None:
    """Train a draft on a target's answers. Acceptance is measured before and after, on prompts that are held out."""
    from memspec_actors.drafts.distillation import distill as run
    from memspec_actors.drafts.settings import DistillSettings
    from memspec_actors.loadout import model_directory

    settings = DistillSettings(
        target=str(model_directory(target).absolute()),
        draft=str(model_directory(draft).absolute()),
        dtype=_dtype(dtype),
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        epochs=epochs,
        batch_tokens=batch_tokens,
        learning_rate=learning_rate,
        logits_weight=logits_weight,
        top_k=top_k,
        seed=seed,
        threads=threads,
    )
    learnt, measured = _prompts(data or [], domain, num_prompts, held_out, seed)
    with progress_bars() as progress:
        report = run(settings, learnt, measured, out, progress)
    if json:
        from msgspec import to_builtins

        print_json(to_builtins(report) | {"out": str(out)} | circumstances(threads, settings.dtype))
    else:
        _show(report, out)


def _dtype(name: str) -> "DtypeName":
    from msgspec import ValidationError, convert

    from memspec_actors.config import TargetConfig
    from memspec_actors.errors import ConfigError

    try:
        return convert({"dtype": name}, TargetConfig).dtype
    except ValidationError as error:
        raise ConfigError(f"--dtype is {name!r}; give one that [target] dtype may be") from error


def _prompts(
    data: list[str], domain: str | None, num_prompts: int | None, held_out: int, seed: int
) -> "tuple[list[Prompt], list[Prompt]]":
    """Return prompts to learn from and others to measure on."""
    from memspec_actors.drafts.distillation import split_prompts
    from memspec_actors.errors import UsageError
    from memspec_actors.predictor.prompts import domain_prompts, read_prompts

    if (domain is None) == (not data):
        raise UsageError("give prompts to learn from: either --data FILE (repeat it) or --domain NAME")
    if domain is not None:
        return domain_prompts(domain, "train", num_prompts or DOMAIN_PROMPTS), domain_prompts(domain, "eval", held_out)
    learnt, measured = split_prompts([prompt for file in data for prompt in read_prompts(file)], held_out, seed)
    return learnt[:num_prompts], measured


def _show(report: "DistillReport", out: Path) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("held-out prompts")
    for heading in ("accepted before", "accepted after"):
        table.add_column(heading, justify="right")
    for kind, before in report.accepted_before.items():
        table.add_row(kind, f"{before:.2f}", f"{report.accepted_after[kind]:.2f}")
    console = wide_console()
    console.print(table)
    console.print(f"wrote {out}, with a model card", soft_wrap=True)
