"""A small fixed set of findings, written as the scripts write them."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from memspec_actors.bench.methods_report import MethodsReport, Quality, scalars
from memspec_actors.bench.methods_report import Row as MethodRow
from memspec_actors.bench.paper.finding import Finding, write_finding
from memspec_actors.comparison import BASE, STRICT, PolicyComparison, Row
from memspec_actors.protocols.results import Share

SPEEDS = {
    BASE: 100.0,
    STRICT: 125.0,
    "oracle-static": 120.0,
    "mab-async": 110.0,
    "memspec": 150.0,
    "memspec+": 147.0,
    "domain-oracle": 160.0,
    "oracle-dynamic": 180.0,
}


def comparison(speeds: Mapping[str, float] = SPEEDS, *, dataset: str = "mixed") -> PolicyComparison:
    """A comparison on one data set; a fifth of the time went into the first load, with it all are half as fast."""

    def over(base: str) -> dict[str, float]:
        return {policy: speed / speeds[base] for policy, speed in speeds.items()}

    rows = tuple(
        Row(
            dataset=dataset,
            policy=policy,
            tokens_per_second=speed / 2,
            normalized=speed / speeds[BASE],
            normalized_strict=speed / speeds[STRICT],
            steady_tokens_per_second=speed,
            tokens_per_iteration=speed / 40,
            share=Share(desired=0.76, fallback=0.04, target_only=0.2),
            startup_share=0.2,
            prediction_busy_share=0.035,
            switches=2.0,
            loads=3.0,
            wasted_loads=1.0,
            latency_s=1000 / speed,
        )
        for policy, speed in speeds.items()
    )
    return PolicyComparison(
        geomean=over(BASE),
        geomean_strict=over(STRICT),
        steady=over(BASE),
        steady_strict=over(STRICT),
        latency=over(BASE),
        latency_strict=over(STRICT),
        rows=rows,
    )


def finding(
    study: str, comparisons: Mapping[str, PolicyComparison], scalars: Mapping[str, float] | None = None
) -> Finding:
    return Finding(
        study=study,
        command=f"python bench/{study}.py --json <here>",
        machine="a toaster, 2 cores",
        setting="5 prompts",
        timed_on="this machine",
        emulated=("storage of 1MB/s",),
        quick=False,
        wall_s=12.0,
        versions={"torch": "2.13.0"},
        threads=1,
        dtype="float32",
        comparisons=comparisons,
        scalars=scalars or {},
    )


BEST = {"typical": 0.0}  # on no data set does it keep its answers
METHODS = {"vanilla": 1.0, "assistedgen": 1.2, "gen-only": 1.24, "gain-only": 1.3, "adasd": 1.5, "typical": 1.3}


def methods() -> MethodsReport:
    """A comparison on two data sets and, for the second, two policies; lossy methods get a tenth wrong."""

    def row(method: str, dataset: str, policy: str, speedup: float) -> MethodRow:
        lossy = method in ("adasd", "typical")
        return MethodRow(
            dataset=dataset,
            method=method,
            policy=policy,
            tokens_per_second=100 * speedup,
            drafted_per_step=5.0,
            accepted_per_step=4.5,
            acceptance_rate=0.9,
            departure_share=0.01 if lossy else 0.0,
            lossless=not lossy,
            speedup=speedup,
            quality=Quality(task_accuracy=0.85 if lossy else 0.95, log_likelihood=-0.125, agreement=0.75),
        )

    cells = (("law", "static:law", 1.0), ("mixed", "memspec", 0.9), ("mixed", "general-static", 0.8))
    rows = tuple(
        row(method, dataset, policy, 1.0 if method == "vanilla" else speedup * factor)
        for dataset, policy, factor in cells
        for method, speedup in METHODS.items()
    )
    return MethodsReport(
        geomean=METHODS,
        best=METHODS | BEST,
        accuracy={method: 0.85 if method in ("adasd", "typical") else 0.95 for method in METHODS},
        with_memspec={"memspec": METHODS},
        share_thresholds=True,
        prompts_per_dataset=2,
        max_new_tokens=9,
        rows=rows,
    )


def write_findings(folder: Path) -> None:
    """Throughput, its ceiling, a sweep, the predictor's table, and methods; nothing else."""
    slower = SPEEDS | {"memspec": 140.0}
    findings = (
        finding("throughput", {"throttled": comparison()}),
        finding("breakdown", {"throttled": comparison()}),
        finding("latency", {"throttled": comparison()}),
        finding("ceiling", {"": comparison(SPEEDS | {"oracle-dynamic": 170.0})}),
        finding("interval", {"2": comparison(slower), "4": comparison(), "8": comparison(slower)}),
        finding("predictor_inputs", {}, {"prompt+recent top1": 0.8, "prompt+recent top2": 0.9}),
        replace(finding("adasd", {}, scalars(methods())), methods=methods()),
    )
    for each in findings:
        write_finding(folder / f"{each.study}.json", each)
