"""Studies of traced texts, replayed in virtual time at a device's pace."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from memspec_actors.bench.replays import Replays, collect_traces, lazy_predictor, open_texts
from memspec_actors.cli.study import Measured, run_study
from memspec_actors.comparison import PolicyComparison
from memspec_actors.config import Config
from memspec_actors.progress import Progress
from memspec_actors.simulation.profile import open_profile

__all__ = ["add_replay_arguments", "open_replays", "replay_study", "replayed"]

ORIN_NANO = "jetson-orin-nano"
NUM_TEXTS, QUICK_TEXTS, TRACED_TOKENS = 100, 12, 256


def replay_study(
    claim: str | None,
    measure: Callable[[Replays], Mapping[str, PolicyComparison]],
    *,
    profile: str = ORIN_NANO,
    free_runs: bool = False,
) -> None:
    """Replay held-out texts: those of ``--traces``, or of prompts that are traced first, with ``free_runs`` if asked.

    Stop rules that go by how sure a draft is need those.
    """

    def measure_replays(config: Config, arguments: Namespace, progress: Progress) -> Measured:
        replays = open_replays(config, arguments, progress, free_runs=free_runs)
        return replayed(replays, measure(replays))

    run_study(claim, measure_replays, lambda parser: add_replay_arguments(parser, profile))


def add_replay_arguments(parser: ArgumentParser, profile: str = ORIN_NANO) -> None:
    """Ask for what `open_replays` needs."""
    what = f"a trace file of `memspec predictor collect`; without it {NUM_TEXTS} held-out requests are traced first"
    parser.add_argument("--traces", type=Path, metavar="FILE", help=what)
    parser.add_argument("--profile", default=profile, metavar="NAME|FILE", help=f"the device; {profile} if not given")


def open_replays(config: Config, arguments: Namespace, progress: Progress, *, free_runs: bool = False) -> Replays:
    """Read the texts, or trace them, and get ready to replay them. Raises TraceError, ConfigError."""
    count = QUICK_TEXTS if arguments.quick else NUM_TEXTS
    if arguments.traces is not None:
        texts = open_texts(arguments.traces, count if arguments.quick else None)
    else:
        with TemporaryDirectory() as scratch:
            path = Path(scratch) / "traces"
            source = f"zoo:eval:{count}"
            collect_traces(
                config,
                source,
                path,
                max_new_tokens=TRACED_TOKENS,
                strict=True,
                free_runs=free_runs,
                progress=progress,
            )
            texts = open_texts(path)
    return Replays(texts, open_profile(arguments.profile), lazy_predictor(config, texts[0]))


def replayed(replays: Replays, comparisons: Mapping[str, PolicyComparison]) -> Measured:
    """Say what was replayed, and at whose pace."""
    return Measured(
        setting=f"{len(replays.texts)} traced texts of held-out requests",
        timed_on=f"{replays.profile.device}, virtual ({replays.profile.source})",
        emulated=("models: replayed from traces", "time: virtual", "storage"),
        comparisons=comparisons,
    )
