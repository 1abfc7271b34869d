"""Studies of real runs: policies interleaved prompt by prompt, every prompt from an empty draft cache."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec.structs import replace

from memspec_actors.bench.datasets import zoo_datasets
from memspec_actors.bench.paper.finding import read_finding
from memspec_actors.bench.policies import PLAN_LENGTH, run_policies, throttled
from memspec_actors.cli.study import Measured, at_least_one, run_study
from memspec_actors.comparison import BASE, STRICT, PolicyComparison, compare_policies
from memspec_actors.config import Config
from memspec_actors.methods import stopping_by
from memspec_actors.progress import Progress

__all__ = ["decode_study"]

LOAD_RATIO = 2.7  # iterations that a load takes on the paper's device
FIXED = f"fixed:{PLAN_LENGTH}"  # what traces are replayed with
MAPPINGS = ("geomean", "geomean_strict", "steady", "steady_strict", "latency", "latency_strict")  # by policy
RUNS, MAX_NEW_TOKENS, QUICK_TOKENS = 3, 128, 48


def decode_study(
    claim: str | None,
    policies: Sequence[str],
    *,
    num_prompts: int,
    throttle: bool = True,
    stop: str = FIXED,
    part_of: str | None = None,
) -> None:
    """Decode ``num_prompts`` prompts of every data set under every policy, three times, drafting as ``stop`` says.

    With ``throttle`` a load takes as many iterations as on the paper's device. ``part_of`` names the study whose file
    may hold these runs already.
    """

    def add_arguments(parser: ArgumentParser) -> None:
        parser.add_argument(
            "--prompts", type=at_least_one, metavar="N", help=f"of each data set; {num_prompts} if not given"
        )
        if part_of is not None:
            what = f"take the runs from a file of bench/{part_of}.py instead of decoding"
            parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help=what)

    def measure(config: Config, arguments: Namespace, progress: Progress) -> Measured:
        if part_of is not None and arguments.source is not None:
            return _taken_from(arguments.source, policies)
        count = arguments.prompts or (1 if arguments.quick else num_prompts)
        config = stopping_by(config, stop)
        runs, tokens = (1, QUICK_TOKENS) if arguments.quick else (RUNS, MAX_NEW_TOKENS)
        return _decode(config, policies, count, runs, tokens, progress, throttle=throttle)

    run_study(claim, measure, add_arguments)


def _decode(
    config: Config,
    policies: Sequence[str],
    num_prompts: int,
    runs: int,
    max_new_tokens: int,
    progress: Progress,
    *,
    throttle: bool,
) -> Measured:
    datasets = zoo_datasets(num_prompts)
    emulated: tuple[str, ...] = ()
    if throttle:
        config = anyio.run(throttled, config, LOAD_RATIO, datasets, max_new_tokens)
        emulated = (f"storage of {config.storage.bandwidth}: a load takes {LOAD_RATIO} iterations",)
    outcomes = run_policies(config, datasets, policies, runs=runs, max_new_tokens=max_new_tokens, progress=progress)
    return Measured(
        setting=f"{num_prompts} prompts of each data set, {max_new_tokens} tokens each, {runs} runs, "
        f"drafts stop by {config.speculation.stop}",
        emulated=emulated,
        comparisons={"throttled" if throttle else "as it is": compare_policies(outcomes)},
    )


def _taken_from(path: Path, policies: Sequence[str]) -> Measured:
    """Take the runs of some policies out of another study's finding."""
    finding = read_finding(path)
    return Measured(
        setting=f"{finding.setting}; runs of {finding.command}",
        timed_on=finding.timed_on,
        emulated=finding.emulated,
        comparisons={name: _only(found, (BASE, *policies, STRICT)) for name, found in finding.comparisons.items()},
    )


def _only(found: PolicyComparison, policies: Sequence[str]) -> PolicyComparison:
    kept = {
        name: {policy: figure for policy, figure in getattr(found, name).items() if policy in policies}
        for name in MAPPINGS
        if getattr(found, name) is not None
    }
    return replace(found, rows=tuple(row for row in found.rows if row.policy in policies), **kept)
