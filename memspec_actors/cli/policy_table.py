"""How a comparison of policies looks on a terminal."""

from operator import attrgetter
from statistics import fmean

from memspec_actors.cli.output import Row, figures_table, wide_console
from memspec_actors.comparison import SHARES, PolicyComparison

__all__ = ["print_policies"]


def print_policies(comparison: PolicyComparison, title: str) -> None:
    """Print one line per policy, means over data sets: speed, and below it how decode time was split."""
    console = wide_console()
    console.print(figures_table(_speeds(comparison), title))
    console.print()
    console.print(figures_table(_shares(comparison), "share of decode time"))


def _speeds(comparison: PolicyComparison) -> list[Row]:
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


def _shares(comparison: PolicyComparison) -> list[Row]:
    return [
        {
            "policy": policy,
            **{kind.replace("_", " "): f"{_mean(comparison, policy, f'share.{kind}'):.1%}" for kind in SHARES},
        }
        for policy in comparison.steady
    ]


def _mean(comparison: PolicyComparison, policy: str, figure: str) -> float:
    """Return the mean of a figure, named by its dotted path in a row, over data sets."""
    return fmean(map(attrgetter(figure), (row for row in comparison.rows if row.policy == policy)))
