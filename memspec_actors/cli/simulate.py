"""``memspec simulate``: what policies would do on a device, replayed from traces."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memspec_actors.cli.config import ConfigOption, load_config
from memspec_actors.cli.output import JsonOption, print_json, progress_bars
from memspec_actors.output_files import check_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memspec_actors.comparison import PolicyComparison
    from memspec_actors.config import Config
    from memspec_actors.simulation.profile import DeviceProfile
    from memspec_actors.simulation.setting import Setting
    from memspec_actors.simulation.texts import Text

__all__ = ["simulate"]

THIS_MACHINE = "this-machine"
QUICK_TEXTS, QUICK_TOKENS = 6, 96


def simulate(
    traces: Annotated[Path, typer.Option("--traces", metavar="FILE", help="A trace file of `predictor collect`.")],
    profile: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="A shipped device profile, a file, or this-machine: measured now.")
    ] = "jetson-orin-nano",
    policy: Annotated[list[str] | None, typer.Option(metavar="POLICY", help="Repeat; all if not given.")] = None,
    interval: Annotated[
        int | None, typer.Option(help="Iterations between scheduling points (N), if not as configured.")
    ] = None,
    capacity: Annotated[int | None, typer.Option(help="Drafts that fit in memory (K), if not as configured.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Cut the texts at so many tokens.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many texts at most.")] = None,
    stop: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Stop drafts by this rule, as in `memspec run`; else at the trace's length."),
    ] = None,
    write_plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plans of the one oracle given by --policy.")
    ] = None,
    config: ConfigOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few, short texts: the same figures, less certain.")] = False,
    json: JsonOption = False,
) -> None:
    """Replay policies over traces, at a device's pace. Time is virtual."""
    chosen = load_config(config)
    if write_plan is not None:
        check_output(write_plan)

    from memspec_actors.bench.replays import lazy_predictor
    from memspec_actors.comparison import compare_policies
    from memspec_actors.simulation.simulate import policies_under, settled
    from memspec_actors.simulation.simulate import simulate as play

    traced = _texts(traces, QUICK_TEXTS if quick and limit is None else limit, max_new_tokens, quick)
    texts, setting = settled(traced, _setting(chosen, _profile(profile, chosen), interval, capacity, stop))
    if write_plan is not None:
        _write_plans(write_plan, texts, setting, policy or [])
        return
    predictor = lazy_predictor(chosen, texts[0])
    with progress_bars() as progress:
        outcomes = play(texts, policy or policies_under(setting), setting, predictor, progress)
    comparison = compare_policies(outcomes)
    if json:
        print_json(_figures(texts, setting, comparison))
    else:
        from memspec_actors.cli.policy_table import print_policies

        print_policies(comparison, f"{setting.profile.device}: virtual time")


def _texts(traces: Path, limit: int | None, max_new_tokens: int | None, quick: bool) -> "list[Text]":
    from memspec_actors.bench.replays import open_texts
    from memspec_actors.errors import TraceError
    from memspec_actors.simulation.texts import shortened

    texts = open_texts(traces, limit)
    tokens = max_new_tokens
    if tokens is None:
        tokens = QUICK_TOKENS if quick else texts[0][0].max_new_tokens
    if tokens < 1:
        raise TraceError(f"--max-new-tokens is {tokens}; it must be at least 1")
    return [shortened(text, tokens) for text in texts]


def _setting(
    config: "Config", profile: "DeviceProfile", interval: int | None, capacity: int | None, stop: str | None
) -> "Setting":
    from msgspec.structs import replace

    from memspec_actors.config import MemoryConfig
    from memspec_actors.simulation.setting import Setting

    schedule = config.schedule if interval is None else replace(config.schedule, interval=interval)
    memory = config.memory if capacity is None else MemoryConfig(capacity=capacity)
    return Setting(profile=profile, schedule=schedule, capacity=memory.capacity, stop=stop)


def _profile(source: str, config: "Config") -> "DeviceProfile":
    from memspec_actors.simulation.profile import open_profile

    if source != THIS_MACHINE:
        return open_profile(source)
    from memspec_actors.simulation.measure import measure_profile

    return measure_profile(config)


def _write_plans(path: Path, texts: "Sequence[Text]", setting: "Setting", policies: list[str]) -> None:
    from memspec_actors.scheduling.plans import write_plans
    from memspec_actors.simulation.planning import Planner, plan_header
    from memspec_actors.simulation.simulate import candidates
    from memspec_actors.simulation.texts import with_drafts

    if len(policies) != 1:
        raise typer.BadParameter("give one oracle as --policy", param_hint="--write-plan")
    texts = [with_drafts(text, candidates(text)) for text in texts]
    planner = Planner(texts, setting)
    plans = [planner.plan(policies[0], text) for text in texts]
    write_plans(path, plan_header(texts[0][0], setting, policies[0]), plans)
    typer.echo(f"wrote {len(plans)} plans of {policies[0]} to {path}")


def _figures(texts: "Sequence[Text]", setting: "Setting", comparison: "PolicyComparison") -> dict[str, Any]:
    import msgspec

    header, profile = texts[0][0], setting.profile
    load_s = max(profile.load_s(nbytes) for nbytes in header.draft_nbytes.values())
    return {
        "load_ratio": load_s / profile.iteration_s(header.k),
        "emulated_storage": True,
        **msgspec.to_builtins(comparison),
        "device": profile.device,
        "source": profile.source,
        "texts": len(texts),
        "stop": setting.stop_for(header),
        "interval": setting.schedule.interval,
        "capacity": setting.capacity,
        "max_new_tokens": header.max_new_tokens,
        "versions": header.versions,
        "threads": 1,
        "dtype": "float32",
        "emulated": ["models (replayed from traces)", "time (virtual)", "storage"],
    }
