"""The command line that the scripts of ``bench/`` share: each measures one study and keeps what it found in a file."""

import shlex
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from memspec_actors.bench.methods_report import MethodsReport
from memspec_actors.bench.paper.finding import Finding, machine, prepare_place, write_finding
from memspec_actors.cli.exit_codes import exit_code_of
from memspec_actors.cli.output import circumstances, progress_bars
from memspec_actors.cli.policy_table import print_policies
from memspec_actors.comparison import PolicyComparison
from memspec_actors.config import Config
from memspec_actors.progress import Progress

__all__ = ["Measured", "at_least_one", "finding_of", "run_study"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a study measured, and how; see `Finding`."""

    setting: str
    timed_on: str = "this machine"
    emulated: tuple[str, ...] = ()
    comparisons: Mapping[str, PolicyComparison] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    methods: MethodsReport | None = None


def run_study(
    claim: str | None,
    measure: Callable[[Config, Namespace, Progress], Measured],
    add_arguments: Callable[[ArgumentParser], object] = lambda parser: None,
) -> None:
    """Measure, print, and write the finding where ``--json`` says; ``claim`` is the script's docstring.

    The process ends here, as `exit_code_of` says, if anything goes wrong.
    """
    parser = ArgumentParser(description=claim)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, for bench/report.py")
    parser.add_argument("--quick", action="store_true", help="little work: the same figures, less certain")
    parser.add_argument("--config", type=Path, metavar="FILE", help="memspec.toml; without it the embedded models")
    add_arguments(parser)
    if code := exit_code_of(partial(_study, parser.parse_args(), measure)):
        sys.exit(code)


def at_least_one(text: str) -> int:
    """Read a number from a command line. Raises ArgumentTypeError for one below 1, ValueError for what is none."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is below 1")
    return number


def finding_of(
    study: str, command: Sequence[str], config: Config, measured: Measured, *, quick: bool, wall_s: float
) -> Finding:
    """Put what a study measured together with the circumstances, those of this process."""
    around = circumstances(config.target.num_threads, config.target.dtype)
    return Finding(
        study=study,
        command=shlex.join(command),
        machine=machine(),
        setting=measured.setting,
        timed_on=measured.timed_on,
        emulated=measured.emulated,
        quick=quick,
        wall_s=wall_s,
        versions=around["versions"],
        threads=around["threads"],
        dtype=around["dtype"],
        comparisons=measured.comparisons,
        scalars=measured.scalars,
        methods=measured.methods,
    )


def _study(arguments: Namespace, measure: Callable[[Config, Namespace, Progress], Measured]) -> None:
    config = Config.load(arguments.config) if arguments.config else Config()
    torch.set_num_threads(config.target.num_threads)
    if arguments.json is not None:
        prepare_place(arguments.json)
    began = time.perf_counter()
    with progress_bars() as progress:
        measured = measure(config, arguments, progress)
    wall_s, script = time.perf_counter() - began, Path(sys.argv[0])
    command = ["python", f"bench/{script.name}", *sys.argv[1:]]
    finding = finding_of(script.stem, command, config, measured, quick=arguments.quick, wall_s=wall_s)
    if arguments.json is not None:
        write_finding(arguments.json, finding)
    _print(finding)


def _print(finding: Finding) -> None:
    for setting, comparison in finding.comparisons.items():
        print_policies(comparison, f"{finding.study}: {setting}; {finding.timed_on}")
    for name, value in finding.scalars.items():
        print(f"{name}: {value:.4g}")  # noqa: T201
