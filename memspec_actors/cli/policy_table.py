"""How a comparison of policies looks on a terminal."""

from typing import TYPE_CHECKING

from memspec_actors.cli.output import wide_console

if TYPE_CHECKING:
    from memspec_actors.comparison import PolicyComparison

__all__ = ["print_policies"]

SHARES = ("desired", "fallback", "target_only", "catch_up", "prediction", "waited")


def print_policies(comparison: "PolicyComparison", title: str) -> None:
    """Print one line per policy: means over data sets, and how decode time was split."""
    from statistics import fmean

    from rich.table import Table

    table = Table(title=title, box=None, title_justify="left")
    table.add_column("policy")
    for heading in ("over general", "strict", "with first load", "tokens/iteration", *SHARES, "loads", "latency"):
        table.add_column(heading.replace("_", " "), justify="right")
    for policy, gain in comparison.steady.items():
        rows = [row for row in comparison.rows if row.policy == policy]
        strict = comparison.steady_strict
        table.add_row(
            policy,
            f"{gain:.3f}",
            f"{strict[policy]:.3f}" if strict else "-",
            f"{comparison.geomean[policy]:.3f}",
            f"{fmean(row.tokens_per_iteration for row in rows):.2f}",
            *(f"{fmean(getattr(row.share, kind) for row in rows):.1%}" for kind in SHARES),
            f"{fmean(row.loads for row in rows):.1f}",
            f"{comparison.latency[policy]:.3f}",
        )
    wide_console().print(table)
