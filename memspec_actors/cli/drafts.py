"""``memspec drafts``: will drafts work with a target, how well, and what memory that takes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.drafts_distill import distill
from memspec_actors.cli.drafts_quantize import quantize
from memspec_actors.cli.output import JsonOption, circumstances, print_json, progress_bars

if TYPE_CHECKING:
    from memspec_actors.config import Config, DraftConfig
    from memspec_actors.drafts.check import CheckOptions
    from memspec_actors.predictor.prompts import Prompt

__all__ = ["app"]

app = typer.Typer(help="Check drafts against a target, and make new ones.", rich_markup_mode=None)


@app.command("check")
def check(
    drafts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]DRAFT", help='Directories, ids on the hub or "zoo:NAME"; without them those configured.'
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="T", help='A directory, an id on the hub or "zoo"; without it the one configured.'),
    ] = None,
    config: ConfigOption = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SIZE|K", help='Memory for drafts, "1.2GiB", or how many, "2", if not as configured.'),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help='Of the device, "8GB": tells which K fits it. Default: what a GPU has free.'),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=1, help="Plan memory for a request of so many tokens, with its answer; 2048 if not given."),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="A .jsonl or text file, or zoo:SPLIT[:COUNT]; else a few built in."),
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Let the target answer each prompt at this length at most.")
    ] = 64,
    k: Annotated[int, typer.Option("--k", min=1, help="Draft so many tokens per iteration.")] = 5,
    bandwidth: Annotated[
        str | None,
        typer.Option(metavar="RATE", help='Of storage, "500MB/s", to estimate loads that cannot be measured.'),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Load nothing: read headers, or config.json where there are no weights.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Tell whether drafts work with a target, and what they gain.

    Beside it what they cost, and the memory plan. Exit with 1 if a draft cannot work or the plan does not fit.
    """
    from msgspec import structs, to_builtins

    from memspec_actors.cli.drafts_tables import show_check
    from memspec_actors.drafts.check import check_drafts
    from memspec_actors.loadout import model_directory

    chosen = _chosen(_configured(config, target), drafts, budget)
    options = _options(chosen, memory, context, bandwidth)
    options = structs.replace(options, plan_only=plan_only, k=k, max_new_tokens=max_new_tokens)
    directories = {draft.name: model_directory(draft.model) for draft in chosen.drafts}
    with progress_bars() as progress:
        report = check_drafts(
            model_directory(chosen.target.model), directories, _prompts(chosen, prompts), options, progress
        )
    if json:
        figures = to_builtins(report) | {"works": report.works}
        print_json(figures | circumstances(chosen.target.num_threads, report.dtype))
    else:
        show_check(report)
    if not report.works:
        raise typer.Exit(1)


app.command("distill")(distill)
app.command("quantize")(quantize)


def _configured(path: Path | None, target: str | None) -> "Config":
    """Read the configuration, with another target if one is given; without a file all else is that target's default."""
    from msgspec.structs import replace

    from memspec_actors.config import Config, TargetConfig

    if target is None:
        return load_config(path)
    if path is None:
        return Config(target=TargetConfig(model=target))
    config = load_config(path)
    return replace(config, target=replace(config.target, model=target))


def _chosen(config: "Config", drafts: list[str] | None, budget: str | None) -> "Config":
    """Put drafts and budget of the command line in place of what is configured."""
    from msgspec.structs import replace

    from memspec_actors.config import MemoryConfig
    from memspec_actors.errors import ConfigError

    chosen = replace(config, drafts=tuple(_draft(text) for text in drafts)) if drafts else config
    if not chosen.drafts:
        raise ConfigError("there are no drafts to check; name some, or give a --config that does")
    if budget is None:
        return chosen
    memory = (
        MemoryConfig(capacity=int(budget))
        if budget.isdecimal()
        else MemoryConfig(capacity=len(chosen.drafts), budget=budget)
    )
    return replace(chosen, memory=memory)


def _draft(text: str) -> "DraftConfig":
    """Read [NAME=]MODEL; a model without a name is called as its directory is."""
    from memspec_actors.config import DraftConfig, zoo_name
    from memspec_actors.hub import hub_model

    name, separator, model = text.partition("=")
    if separator:
        return DraftConfig(name=name, model=model)
    on_hub = hub_model(text)
    called = zoo_name(text) or (Path(text).absolute().name if on_hub is None else on_hub.name)
    return DraftConfig(name=called, model=text)


def _options(config: "Config", memory: str | None, context: int | None, bandwidth: str | None) -> "CheckOptions":
    from memspec_actors.drafts.check import DEFAULT_CONTEXT, STORAGE_BYTES_PER_S, CheckOptions
    from memspec_actors.drafts.predictor_size import predictor_bytes
    from memspec_actors.quantities import parse_bandwidth, parse_bytes

    throttle = config.storage.bytes_per_second
    return CheckOptions(
        dtype=config.target.dtype,
        draft_dtypes={draft.name: draft.dtype for draft in config.drafts if draft.dtype is not None},
        capacity=config.memory.capacity,
        budget_bytes=config.memory.budget_bytes,
        device=config.target.device,
        memory_bytes=None if memory is None else parse_bytes(memory, "--memory"),
        context=DEFAULT_CONTEXT if context is None else context,
        bytes_per_s=parse_bandwidth(bandwidth, "--bandwidth") if bandwidth else throttle or STORAGE_BYTES_PER_S,
        predictor_bytes=predictor_bytes(config.predictor.path),
        threads=config.target.num_threads,
    )


def _prompts(config: "Config", source: str | None) -> "list[Prompt]":
    from memspec_actors.config import zoo_name
    from memspec_actors.drafts.sample_prompts import sample_prompts
    from memspec_actors.predictor.prompts import read_prompts

    if source is not None:
        return read_prompts(source)
    return sample_prompts(embedded=zoo_name(config.target.model) is not None)
