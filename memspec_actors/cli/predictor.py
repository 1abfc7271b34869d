"""``memspec predictor``: trace, train and judge the ranking of drafts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.output import JsonOption, circumstances, print_json, progress_bars

if TYPE_CHECKING:
    from memspec_actors.config import Config

__all__ = ["app"]

app = typer.Typer(help="Trace, train and judge the ranking of drafts.", rich_markup_mode=None)

EVALUATION_PROMPTS, QUICK_PROMPTS = 100, 12
MAX_SEED = 2**63 - 1

MaxNewTokensOption = Annotated[
    int, typer.Option(min=1, help="Let the target write at most so many tokens for a prompt.")
]


@app.command("collect")
def collect(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The trace file to write.")],
    prompts: Annotated[
        str, typer.Option(metavar="SOURCE", help="A .jsonl or text file, or the embedded generator: zoo:SPLIT[:COUNT].")
    ] = "zoo:train",
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many prompts at most.")] = None,
    config: ConfigOption = None,
    max_new_tokens: MaxNewTokensOption = 320,
    k: Annotated[int, typer.Option("--k", min=1, help="Cut accepted runs at this draft length.")] = 5,
    free_runs: Annotated[
        bool,
        typer.Option("--free-runs", help="Trace how sure drafts are, too, for `simulate --stop`: four times the work."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Trace what every draft would get accepted in the target's text."""
    chosen = load_config(config)
    _use_threads(chosen)

    from memspec_actors.bench.replays import collect_traces

    with progress_bars() as progress:
        figures = collect_traces(
            chosen,
            prompts,
            out,
            max_new_tokens=max_new_tokens,
            progress=progress,
            limit=limit,
            k=k,
            free_runs=free_runs,
        )
    _print_figures(figures | circumstances(chosen.target.num_threads, "float32"), json)


@app.command("train")
def train(
    traces: Annotated[Path, typer.Option("--traces", metavar="FILE", help="A trace file of `predictor collect`.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The predictor directory to write.")],
    encoder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A BERT directory; without it the embedded encoder.")
    ] = None,
    exclude: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trace for evaluation that must share no prompt with this one."),
    ] = None,
    config: ConfigOption = None,
    without: Annotated[
        str | None,
        typer.Option(metavar="DRAFT", help="Learn nothing where this draft is the best one, to see what that costs."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Train the same heads again.")] = 0,
    json: JsonOption = False,
) -> None:
    """Train the ranking head on a trace; the encoder stays as it is."""
    chosen = load_config(config)
    _use_threads(chosen)

    from memspec_actors import zoo
    from memspec_actors.bench.configured_weights import note_unconfigured_weights
    from memspec_actors.predictor.training import TrainParams
    from memspec_actors.predictor.training import train as fit

    params = TrainParams(seed=seed, without=without, recent_tokens=chosen.schedule.recent_tokens)
    directory = zoo.path("encoder") if encoder is None else encoder
    tokenizer = _target_tokenizer(chosen)
    note_unconfigured_weights(chosen, traces)
    with progress_bars() as progress:
        figures = fit(traces, directory, out, params=params, tokenizer=tokenizer, exclude=exclude, progress=progress)
    _print_figures({"predictor": str(out), **figures}, json)


@app.command("eval")
def evaluate(
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trace file; without it one is collected from the embedded generator."),
    ] = None,
    predictor: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A predictor directory; without it the configured one.")
    ] = None,
    config: ConfigOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Collect few prompts: the same figures, less certain.")
    ] = False,
    max_new_tokens: MaxNewTokensOption = 320,
    json: JsonOption = False,
) -> None:
    """Tell how well drafts are ranked, and what a ranking costs.

    How often is the best draft ranked first, or among the first two?
    """
    chosen = load_config(config)
    directory = predictor or _predictor_directory(chosen)
    _use_threads(chosen)

    from tempfile import TemporaryDirectory

    from memspec_actors.bench.configured_weights import note_unconfigured_weights
    from memspec_actors.bench.replays import collect_traces
    from memspec_actors.predictor.evaluation import evaluate as judge

    if traces is not None:
        note_unconfigured_weights(chosen, traces)
    with progress_bars() as progress, TemporaryDirectory() as scratch:
        if traces is None:
            traces = Path(scratch) / "traces"
            source = f"zoo:eval:{QUICK_PROMPTS if quick else EVALUATION_PROMPTS}"
            collect_traces(chosen, source, traces, max_new_tokens=max_new_tokens, progress=progress)
        figures = judge(traces, directory, tokenizer=_target_tokenizer(chosen), progress=progress)
    _print_figures(figures | circumstances(chosen.target.num_threads, "float32"), json)


def _predictor_directory(config: "Config") -> Path:
    from memspec_actors.errors import ConfigError
    from memspec_actors.predictor.ranker import predictor_directory

    if config.predictor.path is None:
        raise ConfigError("there is no predictor to judge; set [predictor] path, or give --predictor")
    return predictor_directory(config.predictor.path)


def _target_tokenizer(config: "Config") -> Any:
    from memspec_actors.loadout import model_directory
    from memspec_actors.models.text.tokenizer import Tokenizer

    return Tokenizer.open(model_directory(config.target.model))


def _use_threads(config: "Config") -> None:
    import torch

    torch.set_num_threads(config.target.num_threads)


def _print_figures(figures: dict[str, Any], json: bool) -> None:
    if json:
        print_json(figures)
        return
    for name, value in _flattened(figures):
        typer.echo(f"{name}: {f'{value:.4g}' if isinstance(value, float) else value}")


def _flattened(figures: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the figures by dotted names, those that there are."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{within}{name}.")
        elif value not in (None, []):
            yield f"{within}{name}", value
