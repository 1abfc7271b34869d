"""``memspec bench``: the papers' comparisons, measured here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.config import ConfigOption, load_config

if TYPE_CHECKING:
    from memspec_actors.bench.datasets import DataSet

__all__ = ["app"]

app = typer.Typer(help="Measure what the papers claim, on this machine.", rich_markup_mode=None)

PROMPTS, METHOD_PROMPTS, QUICK_PROMPTS = 12, 16, 1
TOKENS, QUICK_TOKENS = 320, 32
POLICY_TOKENS, QUICK_POLICY_TOKENS, RUNS = 128, 48, 3
LOAD_RATIOS = 0.01, 1000.0

PromptsOption = Annotated[
    list[Path] | None,
    typer.Option("--prompts", metavar="FILE", help="Prompts, one a line or JSON lines; repeat. Default: the zoo's."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Few prompts: the same figures, less certain.")]
JsonFileOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON; '-' is standard output.")
]


def _load_ratio(ratio: float) -> float:
    """Return a ratio that storage can be slowed down to, as any number between the bounds is, and NaN is not."""
    least, most = LOAD_RATIOS
    if not least <= ratio <= most:
        raise typer.BadParameter(f"{ratio} is not in the range {least}<=x<={most}")
    return ratio


@app.callback()
def bench() -> None:
    """Measure what the papers claim, on this machine."""


@app.command("adasd")
def adasd(
    prompts: PromptsOption = None,
    count: Annotated[
        int | None, typer.Option(min=1, help=f"Prompts of each data set; {METHOD_PROMPTS} if not given.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="One policy for all; without it a domain's own draft, and memspec if mixed.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help=f"Tokens of each text; {TOKENS} if not given.")
    ] = None,
    share: Annotated[
        bool, typer.Option("--share/--no-share", help="Keep what rules learn from prompt to prompt.")
    ] = True,
    config: ConfigOption = None,
    quick: QuickOption = False,
    json: JsonFileOption = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the speed-ups (.png, .svg, .pdf).")] = None,
) -> None:
    """Compare AdaSD and its rivals by speed, acceptance and quality."""
    from memspec_actors.cli.bench_adasd import bench_adasd

    bench_adasd(
        load_config(config),
        _datasets(prompts or [], count or (QUICK_PROMPTS if quick else METHOD_PROMPTS)),
        policy=policy,
        max_new_tokens=max_new_tokens or (QUICK_TOKENS if quick else TOKENS),
        share=share,
        quick=quick,
        json=json,
        figure=figure,
    )


@app.command("policies")
def policies(
    prompts: PromptsOption = None,
    count: Annotated[int | None, typer.Option(min=1, help=f"Prompts of each data set; {PROMPTS} if not given.")] = None,
    policy: Annotated[list[str] | None, typer.Option(metavar="POLICY", help="Repeat; all if not given.")] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help=f"Tokens of each text; {POLICY_TOKENS} if not given.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help=f"Repetitions; {RUNS} if not given.")] = None,
    stop: Annotated[
        str | None, typer.Option(metavar="RULE", help="When to stop drafting; the configuration's rule if not given.")
    ] = None,
    load_ratio: Annotated[
        float, typer.Option(callback=_load_ratio, help="How many iterations a load takes on the emulated storage.")
    ] = 2.7,
    config: ConfigOption = None,
    quick: QuickOption = False,
    json: JsonFileOption = None,
) -> None:
    """Compare scheduling policies by throughput and share of time."""
    from memspec_actors.cli.bench_policies import bench_policies
    from memspec_actors.simulation.simulate import POLICIES

    bench_policies(
        load_config(config),
        _datasets(prompts or [], count or (QUICK_PROMPTS if quick else PROMPTS)),
        policy or POLICIES,
        runs=runs or (1 if quick else RUNS),
        max_new_tokens=max_new_tokens or (QUICK_POLICY_TOKENS if quick else POLICY_TOKENS),
        stop=stop,
        load_ratio=load_ratio,
        unthrottled=not quick,
        json=json,
    )


def _datasets(prompts: list[Path], count: int) -> "list[DataSet]":
    from memspec_actors.bench.datasets import file_dataset, zoo_datasets

    return [file_dataset(path, count) for path in prompts] or zoo_datasets(count)
