"""How a comparison of policies looks on a terminal."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING

from memspec_actors.cli.output import wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from memspec_actors.comparison import PolicyComparison

__all__ = ["print_policies"]

SHARES = ("desired", "fallback", "target_only", "catch_up", "prediction", "waited")

Row = Mapping[str, str]


def print_policies(comparison: "PolicyComparison", title: str) -> None:
    """Print one line per policy, means over data sets: speed, and below it how decode time was split."""
    console = wide_console()
    console.print(_table(title, _speeds(comparison)))
    console.print()
    console.print(_table("share of decode time", _shares(comparison)))


def _speeds(comparison: "PolicyComparison") -> list[Row]:
    strict = comparison.steady_strict
    return [
        {
            "policy": policy,
            "over general": f"{gain:.3f}",
            **({"strict": f"{strict[policy]:.3f}"} if strict else {}),
            "with first load": f"{comparison.geomean[policy]:.3f}",
            "latency": f"{comparison.latency[policy]:.3f}",
            "tokens per iteration": f"{_mean(comparison, policy, 'tokens_per_iteration'):.2f}",
            "loads": f"{_mean(comparison, policy, 'loads'):.1f}",
        }
        for policy, gain in comparison.steady.items()
    ]


def _shares(comparison: "PolicyComparison") -> list[Row]:
    return [
        {
            "policy": policy,
            **{kind.replace("_", " "): f"{_mean(comparison, policy, f'share.{kind}'):.1%}" for kind in SHARES},
        }
        for policy in comparison.steady
    ]


def _mean(comparison: "PolicyComparison", policy: str, figure: str) -> float:
    """Return the mean of a figure, named by its dotted path in a row, over data sets."""
    return fmean(map(attrgetter(figure), (row for row in comparison.rows if row.policy == policy)))


def _table(title: str, rows: Sequence[Row]) -> "Table":
    from rich.table import Table

    table = Table(title=title, box=None, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    for heading in list(rows[0])[1:]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row.values())
    return table
