"""Single figures, read off a finding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, Protocol

from memspec_actors.bench.datasets import MIXED
from memspec_actors.bench.methods_report import MethodsReport, fastest, losses
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.comparison import BASE, STRICT, PolicyComparison, Row, geomean

__all__ = [
    "Average", "Figure", "Quotient", "Ratio", "Value", "best_speedup", "busy", "cell", "comparison", "datasets",
    "focus", "scalar", "share", "wrong_answers",
]  # fmt: skip

CEILING = "oracle-dynamic"
BASELINES = (BASE, "mab-async")
DOMAINS = "domains"  # all data sets but the mixed one, as in the paper


class Figure(Protocol):
    """Read one figure off a finding.

    ``strict`` is the same over the strict general draft, where that differs; ``by_domain`` is the mean over data sets
    of one domain each, which the paper's figures are; ``ceiling`` is that of one who knew the text, in the place of a
    policy that does not, over a baseline of the paper's.

    Raises LookupError where the finding does not hold it.
    """

    def __call__(self, finding: Finding) -> float: ...

    @property
    def strict(self) -> "Figure | None": ...

    @property
    def by_domain(self) -> "Figure | None": ...

    @property
    def ceiling(self) -> "Ratio | None": ...


@dataclass(frozen=True)
class Ratio:
    """Compare two policies by one measure, in one setting (None: the only one).

    On one data set, or on ``DOMAINS``: the geometric mean over them.
    """

    policy: str
    over: str = BASE
    of: Literal["steady_tokens_per_second", "tokens_per_second", "tokens_per_iteration", "latency_s"] = (
        "steady_tokens_per_second"
    )
    dataset: str = MIXED
    setting: str | None = None

    def __call__(self, finding: Finding) -> float:
        ours, theirs = (_rows(finding, self.setting, self.dataset, policy) for policy in (self.policy, self.over))
        return geomean(getattr(a, self.of) / getattr(b, self.of) for a, b in zip(ours, theirs, strict=True))

    @property
    def strict(self) -> Figure | None:
        return replace(self, over=STRICT) if self.over == BASE else None

    @property
    def by_domain(self) -> Figure | None:
        return replace(self, dataset=DOMAINS) if self.dataset == MIXED else None

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
        return self._with(self.above.strict, self.below.strict)

    @property
    def by_domain(self) -> Figure | None:
        return self._with(self.above.by_domain, self.below.by_domain)

    def _with(self, above: Figure | None, below: Figure | None) -> Figure | None:
        return None if above is None or below is None else Quotient(above, below)


@dataclass(frozen=True)
class Average:
    """Read a figure off a policy's row on one data set, or average it over ``DOMAINS``."""

    policy: str
    read: Callable[[Row], float]
    dataset: str = MIXED
    strict: None = None
    ceiling: None = None

    def __call__(self, finding: Finding) -> float:
        return fmean(self.read(row) for row in _rows(finding, None, self.dataset, self.policy))

    @property
    def by_domain(self) -> Figure | None:
        return replace(self, dataset=DOMAINS) if self.dataset == MIXED else None


@dataclass(frozen=True)
class Value:
    """Read a figure that is no comparison of policies."""

    read: Callable[[Finding], float]
    strict: None = None
    by_domain: None = None
    ceiling: None = None

    def __call__(self, finding: Finding) -> float:
        return self.read(finding)


def share(policy: str, kind: str) -> Average:
    """Return the share of decode time from the first draft on that went into one kind of execution."""
    return Average(policy, lambda row: float(getattr(row.share, kind) / (1.0 - row.startup_share)))


def busy(policy: str) -> Average:
    """Return the time that ranking took, beside decoding, over decode time."""
    return Average(policy, lambda row: row.prediction_busy_share)


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


def _rows(finding: Finding, setting: str | None, dataset: str, policy: str) -> list[Row]:
    found = comparison(finding, setting)
    names = [name for name in datasets(found) if name != MIXED] if dataset == DOMAINS else [dataset]
    if not names:
        raise LookupError(f"{policy} on data sets of one domain")
    return [cell(found, name, policy) for name in names]


def cell(found: PolicyComparison, dataset: str, policy: str) -> Row:
    """Return what a policy did on a data set. Raises LookupError if it was not measured."""
    for each in found.rows:
        if (each.dataset, each.policy) == (dataset, policy):
            return each
    raise LookupError(f"{policy} on {dataset}")
