"""``memspec run``: one generation, streamed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.output import JsonOption
from memspec_actors.errors import InvalidRequest

if TYPE_CHECKING:
    from memspec_actors.config import Config
    from memspec_actors.protocols.requests import SamplingParams

__all__ = ["run"]


def run(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The prompt; '-' or nothing reads standard input.")
    ] = None,
    config: ConfigOption = None,
    policy: Annotated[str | None, typer.Option(help="How drafts are scheduled, e.g. memspec, target-only.")] = None,
    plan: Annotated[Path | None, typer.Option(metavar="FILE", help="The plans that an oracle follows.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A stop and an acceptance rule at once: vanilla, assistedgen, gen-only, adasd, ..."),
    ] = None,
    stop: Annotated[
        str | None, typer.Option(help="When to stop drafting: fixed:5, gain, entropy, confidence, ...; module:Class")
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(help="What to accept: auto, exact, match, rejection; lossy: bayes, typical, ...; module:Class"),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Generate at most so many tokens.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Keep the k likeliest tokens; 0 is off.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens up to this mass; 1 is off.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Drop tokens below this share of the likeliest; 0 is off.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Draw the same text again; without it, another each time.")] = None,
    stop_string: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End the text before this string; repeat.")
    ] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the event log to this file.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Give the prompt verbatim, not through the chat template.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Generate text for one prompt and stream it."""
    sampling = _sampling(temperature, top_k, top_p, min_p, seed, tuple(stop_string or ()))
    chosen = _with_plan(_with_overrides(load_config(config), policy, method, stop, accept, events), plan)
    text = _read_prompt(prompt)

    from memspec_actors.cli.generation import generate

    if not generate(chosen, text, max_new_tokens=max_new_tokens, sampling=sampling, raw=raw, json=json):
        raise typer.Exit(130)


def _read_prompt(prompt: str | None) -> str:
    if prompt is not None and prompt != "-":
        return prompt
    try:
        text = "" if prompt is None and sys.stdin.isatty() else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the prompt on standard input is not valid UTF-8 at byte {error.start}") from error
    if not text:
        raise InvalidRequest("there is no prompt; give one as an argument or on standard input")
    return text


def _sampling(
    temperature: float, top_k: int, top_p: float, min_p: float, seed: int | None, stop: tuple[str, ...]
) -> "SamplingParams":
    from memspec_actors.protocols.requests import SamplingParams

    try:
        return SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, stop=stop)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _with_overrides(
    config: "Config", policy: str | None, method: str | None, stop: str | None, accept: str | None, events: Path | None
) -> "Config":
    from msgspec.structs import replace

    from memspec_actors.config_sections import ACCEPT, STOP
    from memspec_actors.methods import choose

    speculation = config.speculation
    if method is not None:
        speculation = replace(speculation, method=method, stop=STOP, accept=ACCEPT)
    choice = choose(replace(config, speculation=speculation), policy=policy, stop=stop, accept=accept)
    if choice.draft_alone is None:  # else the method stays: it says which model runs
        speculation = replace(speculation, method=None, stop=choice.stop, accept=choice.accept)
    config = replace(config, schedule=replace(config.schedule, policy=choice.policy), speculation=speculation)
    if events is not None:
        config = replace(config, events=replace(config.events, path=str(events)))
    return config


def _with_plan(config: "Config", plan: Path | None) -> "Config":
    from msgspec.structs import replace

    return config if plan is None else replace(config, schedule=replace(config.schedule, plan=str(plan)))
