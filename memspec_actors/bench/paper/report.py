"""Compose one page of all findings: every figure beside the paper's, with a verdict and its circumstances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memspec_actors.bench.paper.claims import Verdict, judge
from memspec_actors.bench.paper.evaluation import STUDIES
from memspec_actors.bench.paper.figures import cell, datasets, focus
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.bench.paper.method_tables import method_tables
from memspec_actors.bench.paper.study import Study
from memspec_actors.bench.paper.table import Table
from memspec_actors.comparison import BASE, SHARES, STRICT, PolicyComparison

__all__ = ["Report", "Section", "compose", "verdict_table"]

OVER_GENERAL = "Throughput from the first draft on, over general-static / over the strict general draft"


@dataclass(frozen=True)
class Section:
    """One study: its verdicts and tables; ``circumstances`` is empty if there is no finding of it."""

    study: Study
    circumstances: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    tables: tuple[Table, ...]

    @property
    def is_missing(self) -> bool:
        return not self.circumstances


@dataclass(frozen=True)
class Report:
    """The page, and how many goals were met, missed and not measured."""

    sections: tuple[Section, ...]

    @property
    def counts(self) -> Mapping[str, int]:
        goals = [v for section in self.sections for v in section.verdicts if v.claim.goal is not None]
        return {
            "met": sum(v.met is True for v in goals),
            "missed": sum(v.met is False for v in goals),
            "not measured": sum(v.met is None for v in goals),
        }


def compose(findings: Mapping[str, Finding]) -> Report:
    """Compose the page of the findings, by study; studies without one are on it as missing."""
    return Report(tuple(_section(study, findings) for study in STUDIES))


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Lay verdicts out, each of our figures beside the paper's."""
    rows = tuple(
        (
            verdict.claim.says,
            verdict.claim.written(verdict.ours),
            verdict.claim.written(verdict.strict),
            verdict.claim.written(verdict.by_domain),
            verdict.claim.written(verdict.ceiling),
            verdict.claim.paper or "–",
            verdict.claim.written_goal or "–",
            verdict.text,
        )
        for verdict in verdicts
    )
    return Table(
        "", ("", "ours", "ours, strict", "ours, by domain", "oracle, replayed", "paper", "goal", "verdict"), rows
    )


def _section(study: Study, findings: Mapping[str, Finding]) -> Section:
    finding = findings.get(study.name)
    verdicts = tuple(judge(claim, finding, findings.get("ceiling")) for claim in study.claims)
    if finding is None:
        return Section(study, (), verdicts, ())
    return Section(study, _circumstances(finding), verdicts, tuple(_tables(finding)))


def _circumstances(finding: Finding) -> tuple[str, ...]:
    """Label a finding: whose times, on what machine, by what command, emulated or not."""
    versions = ", ".join(f"{name} {version}" for name, version in finding.versions.items())
    quick = "; --quick: few prompts, uncertain" if finding.quick else ""
    return (
        f"command: {finding.command} ({finding.wall_s:.0f} s)",
        f"measured: {finding.setting}{quick}",
        f"times of: {finding.timed_on}",
        f"emulated: {'; '.join(finding.emulated) or 'nothing'}",
        f"machine: {finding.machine}; {finding.threads} thread(s), {finding.dtype}; {versions}",
    )


def _tables(finding: Finding) -> list[Table]:
    tables = []
    if len(finding.comparisons) == 1:
        (found,) = finding.comparisons.values()
        tables = [_by_dataset(found), _shares(found)]
    elif finding.comparisons:
        tables = [_by_setting(finding.study, finding.comparisons)]
    if finding.methods is not None:
        return method_tables(finding.methods)  # the scalars are read off them
    if finding.scalars:
        rows = tuple((name, f"{value:.3f}") for name, value in finding.scalars.items())
        tables.append(Table("Figures", ("", "value"), rows))
    return tables


def _by_dataset(found: PolicyComparison) -> Table:
    names = datasets(found)
    rows = []
    for policy, mean in found.steady.items():
        strict = found.steady_strict[policy] if found.steady_strict else None
        rows.append((policy, *(_gain(found, dataset, policy) for dataset in names), _pair(mean, strict)))
    return Table(OVER_GENERAL, ("policy", *names, "geometric mean"), tuple(rows))


def _gain(found: PolicyComparison, dataset: str, policy: str) -> str:
    """Write the throughput over General-Static, and over the strict general draft if it ran."""
    own, base = (cell(found, dataset, each).steady_tokens_per_second for each in (policy, BASE))
    strict = cell(found, dataset, STRICT).steady_tokens_per_second if STRICT in found.geomean else None
    return _pair(own / base, None if strict is None else own / strict)


def _shares(found: PolicyComparison) -> Table:
    dataset = focus(found)
    rows = tuple(
        (
            row.policy,
            f"{row.steady_tokens_per_second:.1f}",
            f"{row.tokens_per_second:.1f}",
            f"{row.tokens_per_iteration:.2f}",
            *(f"{getattr(row.share, kind):.1%}" for kind in SHARES),
            f"{row.prediction_busy_share:.1%}",
            f"{row.loads:.1f}",
            f"{row.wasted_loads:.1f}",
            f"{row.switches:.1f}",
            f"{row.latency_s:.3f}",
        )
        for row in found.rows
        if row.dataset == dataset
    )
    heads = ("policy", "tokens/s", "with first load", "tokens/iteration", *(kind.replace("_", " ") for kind in SHARES))
    more = ("ranking (beside)", "loads", "unused", "switches", "request, s")
    return Table(f"Where the time went, {dataset} prompts", (*heads, *more), rows)


def _by_setting(varied: str, comparisons: Mapping[str, PolicyComparison]) -> Table:
    first = next(iter(comparisons.values()))
    dataset = focus(first)
    rows = []
    for setting, found in comparisons.items():
        rows.append((setting, *(_gain(found, dataset, policy) for policy in first.geomean)))
    return Table(f"{OVER_GENERAL}, {dataset} prompts", (varied, *first.geomean), tuple(rows))


def _pair(over_general: float, strict: float | None) -> str:
    return f"{over_general:.3f} / {'–' if strict is None else f'{strict:.3f}'}"
