"""Draw findings as the paper's figures: SVG text, by matplotlib."""

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from memspec_actors.bench.adasd_figure import check_plotting, draw_speedups
from memspec_actors.bench.paper.figures import cell, comparison, datasets, focus
from memspec_actors.bench.paper.finding import Finding
from memspec_actors.comparison import BASE, SHARES, STRICT, PolicyComparison, geomean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["picture"]

COLOURS = {
    "desired": "#4878a8",
    "fallback": "#d1605e",
    "target_only": "#b8b8b8",
    "catch_up": "#e7a13d",
    "prediction": "#6a9f58",
    "waited": "#5b3a6b",
}
MEAN = "all"
SIZE = (9.0, 3.4)  # inches


def picture(finding: Finding) -> str | None:
    """Draw a finding as SVG, or None if there is no picture of its study. Raises ConfigError without matplotlib."""
    draw = _DRAWN_AS.get(finding.study)
    if draw is None:
        return None
    check_plotting()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": finding.study, "font.size": 8.5, "svg.fonttype": "none"}):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, finding)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _throughput(axes: "Axes", finding: Finding) -> None:
    _by_dataset(axes, comparison(finding, None), lambda row: row.steady_tokens_per_second)
    axes.set_ylabel("throughput over general-static")


def _acceptance(axes: "Axes", finding: Finding) -> None:
    _by_dataset(axes, comparison(finding, None), lambda row: row.tokens_per_iteration)
    axes.set_ylabel("tokens per iteration\nover general-static")


def _by_dataset(axes: "Axes", found: PolicyComparison, of: Callable[..., float]) -> None:
    """Draw a group of bars for every data set and for their geometric mean; the strict general draft is one of them."""
    names = datasets(found)
    groups: dict[str, list[float]] = {}
    for policy in found.geomean:
        ratios = [of(cell(found, dataset, policy)) / of(cell(found, dataset, BASE)) for dataset in names]
        groups[_named(policy)] = [*ratios, geomean(ratios)]
    _grouped(axes, [*names, MEAN], groups)
    axes.axhline(1.0, color="black", linewidth=0.6)


def _grouped(axes: "Axes", places: Sequence[str], groups: Mapping[str, Sequence[float]]) -> None:
    width = 0.84 / len(groups)
    for number, (name, values) in enumerate(groups.items()):
        left = [place + (number + 0.5) * width - 0.42 for place in range(len(places))]
        axes.bar(left, values, width, label=name, color=f"C{number % 10}", hatch="//" if name == _named(STRICT) else "")
    axes.set_xticks(range(len(places)), places)
    axes.legend(fontsize=7, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def _breakdown(axes: "Axes", finding: Finding) -> None:
    """Stack what decode time went into, the first load too; a bar is as long as a token takes over General-Static's."""
    found = comparison(finding, None)
    policies = list(found.geomean)
    rows = [cell(found, focus(found), policy) for policy in policies]
    bottom = [0.0] * len(rows)
    for kind in SHARES:
        heights = [getattr(each.share, kind) / each.normalized for each in rows]
        axes.bar([_named(policy) for policy in policies], heights, 0.6, bottom, label=kind, color=COLOURS[kind])
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    axes.set_ylabel("time per token\nover general-static")
    axes.legend(fontsize=7, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def _latency(axes: "Axes", finding: Finding) -> None:
    found = comparison(finding, None)
    values = {_named(policy): value for policy, value in found.latency.items()}
    axes.bar_label(axes.bar(list(values), list(values.values()), 0.6), fmt="%.2f")
    axes.set_ylabel("time of a request\nover general-static")


def _sweep(axes: "Axes", finding: Finding) -> None:
    """Draw a line for every policy over what is varied; General-Static in its strict sense is a dashed one."""
    for policy, gains in _gains(finding).items():
        style = "--" if policy == _named(STRICT) else "-"
        axes.plot(list(finding.comparisons), gains, style, marker="o", markersize=4, label=policy)
    axes.set_xlabel(finding.study)
    axes.set_ylabel("throughput over general-static")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def _predictor(axes: "Axes", finding: Finding) -> None:
    inputs = [name.removesuffix(" top1") for name in finding.scalars if name.endswith(" top1")]
    _grouped(axes, inputs, {top: [finding.scalars[f"{kind} {top}"] for kind in inputs] for top in ("top1", "top2")})
    axes.set_ylabel("share of scheduling points")


def _switching(axes: "Axes", finding: Finding) -> None:
    times = {name.removesuffix(" ms"): value for name, value in finding.scalars.items() if name.endswith(" ms")}
    axes.bar_label(axes.barh(list(times), list(times.values()), 0.6), fmt="%.2f")
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")


def _unseen(axes: "Axes", finding: Finding) -> None:
    """Draw what policies gain under every predictor."""
    _grouped(axes, list(finding.comparisons), _gains(finding))
    axes.set_ylabel("throughput over general-static")


def _gains(finding: Finding) -> dict[str, list[float]]:
    """Give every policy's throughput over General-Static in each setting of what is varied."""
    found = finding.comparisons.values()
    return {
        _named(policy): [_speed(each, policy) / _speed(each, BASE) for each in found]
        for policy in comparison(finding, None).geomean
    }


def _speed(found: PolicyComparison, policy: str) -> float:
    return cell(found, focus(found), policy).steady_tokens_per_second


def _named(policy: str) -> str:
    return "general-static (strict)" if policy == STRICT else policy


def _methods(axes: "Axes", finding: Finding) -> None:
    assert finding.methods is not None, "this study compares methods"
    draw_speedups(axes, finding.methods)


_DRAWN_AS: dict[str, Callable[["Axes", Finding], None]] = {
    "throughput": _throughput,
    "adaptive": _throughput,
    "unthrottled": _throughput,
    "components": _throughput,
    "ceiling": _throughput,
    "adaptive_ceiling": _throughput,
    "acceptance": _acceptance,
    "breakdown": _breakdown,
    "latency": _latency,
    "interval": _sweep,
    "length": _sweep,
    "capacity": _sweep,
    "predictor_inputs": _predictor,
    "switching": _switching,
    "unseen_domain": _unseen,
    "adasd": _methods,
}
