"""``memspec bench policies``: how it runs and what it prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memspec_actors.cli.output import circumstances, print_json, progress_bars
from memspec_actors.output_files import check_output, write_whole

if TYPE_CHECKING:
    from memspec_actors.bench.datasets import DataSet
    from memspec_actors.comparison import PolicyComparison
    from memspec_actors.config import Config

__all__ = ["bench_policies"]


def bench_policies(
    config: "Config",
    datasets: "Sequence[DataSet]",
    policies: Sequence[str],
    *,
    runs: int,
    max_new_tokens: int,
    stop: str | None,
    load_ratio: float,
    unthrottled: bool,
    json: Path | None,
) -> None:
    """Run the policies on storage as slow as on the paper's device, and (unless left out) on storage as it is."""
    import anyio

    from memspec_actors.bench.policies import identical_share, plan_length, run_policies, throttled
    from memspec_actors.comparison import compare_policies
    from memspec_actors.methods import choose, stopping_by

    if json is not None and json != Path("-"):
        check_output(json)
    if stop is not None:
        config = stopping_by(config, stop)

    with progress_bars() as progress:
        slow = anyio.run(throttled, config, load_ratio, datasets, max_new_tokens)
        options: dict[str, Any] = {"runs": runs, "max_new_tokens": max_new_tokens, "progress": progress}
        emulated = run_policies(slow, datasets, policies, **options)
        real = run_policies(config, datasets, policies, **options) if unthrottled else []
    comparison = compare_policies(emulated)
    beside = compare_policies(real) if real else None
    figures = {
        "load_ratio": load_ratio,
        "emulated_storage": True,
        **_builtins(comparison),
        "unthrottled": None if beside is None else _builtins(beside),
        "bandwidth": slow.storage.bandwidth,
        "identical_text": identical_share([*emulated, *real]),
        "prompts_per_dataset": max(len(dataset.tasks) for dataset in datasets),
        "runs": runs,
        "max_new_tokens": max_new_tokens,
        "stop": choose(config).stop,
        "plan_length": plan_length(config),
        **circumstances(config.target.num_threads, config.target.dtype),
        "emulated": [f"storage of {slow.storage.bandwidth}: a load takes {load_ratio} iterations"],
    }
    _show(figures, comparison, beside, json)


def _builtins(comparison: "PolicyComparison") -> dict[str, Any]:
    import msgspec

    builtins: dict[str, Any] = msgspec.to_builtins(comparison)
    return builtins


def _show(
    figures: dict[str, Any], comparison: "PolicyComparison", beside: "PolicyComparison | None", json: Path | None
) -> None:
    import msgspec

    from memspec_actors.cli.policy_table import print_policies

    if json == Path("-"):
        print_json(figures)
        return
    drafting = f"drafts stop by {figures['stop']}"
    print_policies(comparison, f"storage throttled to {figures['bandwidth']} (emulated), {drafting}")
    if beside is not None:
        print_policies(beside, f"storage as it is, {drafting}")
    if json is not None:
        write_whole(json, msgspec.json.format(msgspec.json.encode(figures)))
