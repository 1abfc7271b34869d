"""Single figures, read off a finding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from memspec_actors.bench.datasets import MIXED
from memspec_actors.bench.methods_report import MethodsReport, fastest, losses
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.comparison import BASE, STRICT, PolicyComparison, Row

__all__ = [
    "Figure", "Quotient", "Ratio", "Value", "best_speedup", "busy", "cell", "comparison", "datasets", "focus", "scalar",
    "share", "wrong_answers",
]  # fmt: skip

CEILING = "oracle-dynamic"
BASELINES = (BASE, "mab-async")


class Figure(Protocol):
    """Read one figure off a finding.

    ``strict`` is the same over the strict general draft, where that differs; ``ceiling`` is that of one who knew the
    text, in the place of a policy that does not, over a baseline of the paper's.

    Raises LookupError where the finding does not hold it.
    """

    def __call__(self, finding: Finding) -> float: ...

    @property
    def strict(self) -> "Figure | None": ...

    @property
    def ceiling(self) -> "Ratio | None": ...


@dataclass(frozen=True)
class Ratio:
    """Compare two policies by one measure, on one data set, in one setting (None: the only one)."""

    policy: str
    over: str = BASE
    of: Literal["steady_tokens_per_second", "tokens_per_second", "tokens_per_iteration", "latency_s"] = (
        "steady_tokens_per_second"
    )
    dataset: str = MIXED
    setting: str | None = None

    def __call__(self, finding: Finding) -> float:
        found = comparison(finding, self.setting)
        ours, theirs = (cell(found, self.dataset, policy) for policy in (self.policy, self.over))
        return float(getattr(ours, self.of) / getattr(theirs, self.of))

    @property
    def strict(self) -> Figure | None:
        return replace(self, over=STRICT) if self.over == BASE else None

    @property
    def ceiling(self) -> "Ratio | None":
        bounded = self.over in BASELINES and "oracle" not in self.policy
        return replace(self, policy=CEILING) if bounded else None


@dataclass(frozen=True)
class Quotient:
    """Divide one figure by another."""

    above: Figure
    below: Figure
    ceiling: None = None

    def __call__(self, finding: Finding) -> float:
        return self.above(finding) / self.below(finding)

    @property
    def strict(self) -> Figure | None:
        above, below = self.above.strict, self.below.strict
        return None if above is None or below is None else Quotient(above, below)


@dataclass(frozen=True)
class Value:
    """Read a figure that is not relative to any general draft."""

    read: Callable[[Finding], float]
    strict: None = None
    ceiling: None = None

    def __call__(self, finding: Finding) -> float:
        return self.read(finding)


def share(policy: str, kind: str) -> Value:
    """Return the share of decode time from the first draft on that went into one kind of execution, mixed prompts."""

    def read(finding: Finding) -> float:
        row = cell(comparison(finding, None), MIXED, policy)
        return float(getattr(row.share, kind) / (1.0 - row.startup_share))

    return Value(read)


def busy(policy: str) -> Value:
    """Return the time that ranking took, beside decoding, over decode time, on mixed prompts."""
    return Value(lambda finding: cell(comparison(finding, None), MIXED, policy).prediction_busy_share)


def scalar(name: str) -> Value:
    """Return a figure that is no comparison of policies."""
    return Value(lambda finding: finding.scalars[name])


def best_speedup(method: str) -> Value:
    """Return a method's speed-up on its best data set: of those that keep their answers, or of all if none does."""

    def read(finding: Finding) -> float:
        report = _methods(finding)
        return report.best[method] or fastest(report, method).speedup

    return Value(read)


def wrong_answers(method: str) -> Callable[[Finding], str]:
    """Return what tells, of a method that keeps its answers on no data set, how many it loses; else nothing."""

    def tell(finding: Finding) -> str:
        report = _methods(finding)
        if report.best[method]:
            return ""
        lost = losses(report, method)
        there, least = lost[fastest(report, method).dataset], min(lost, key=lost.__getitem__)
        return f"{there:.1%} of the answers lost there, at least {lost[least]:.1%} anywhere ({least})"

    return tell


def _methods(finding: Finding) -> MethodsReport:
    if finding.methods is None:
        raise LookupError("methods")
    return finding.methods


def comparison(finding: Finding, setting: str | None) -> PolicyComparison:
    """Return the comparison in one setting, or the first one. Raises LookupError if there is none."""
    return finding.comparisons[setting if setting is not None else next(iter(finding.comparisons), "")]


def datasets(found: PolicyComparison) -> list[str]:
    """Name the data sets, the mixed one last."""
    return sorted(dict.fromkeys(each.dataset for each in found.rows), key=lambda name: name == MIXED)


def focus(found: PolicyComparison) -> str:
    """Name the data set to look at where there is room for one: the mixed prompts, if they are there."""
    return datasets(found)[-1]


def cell(found: PolicyComparison, dataset: str, policy: str) -> Row:
    """Return what a policy did on a data set. Raises LookupError if it was not measured."""
    for each in found.rows:
        if (each.dataset, each.policy) == (dataset, policy):
            return each
    raise LookupError(f"{policy} on {dataset}")
