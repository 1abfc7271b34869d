"""How a check of drafts looks on a terminal."""

from typing import TYPE_CHECKING

from memspec_actors.cli.output import Row, figures_table, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from memspec_actors.drafts.memory_plan import MemoryPlan
    from memspec_actors.drafts.report import CheckReport, DraftReport

__all__ = ["show_check"]

MB = 1e6


def show_check(report: "CheckReport") -> None:
    """Print a line per draft, what to know of it, what is accepted of it, the memory plan, and the verdict."""
    console = wide_console()
    console.print(figures_table(_drafts(report)))
    for draft in report.drafts:
        if draft.problem is not None:
            console.print(f"{draft.name}: cannot work: {draft.problem}", soft_wrap=True)
    for note, names in _notes(report).items():
        console.print(f"{', '.join(names)}: {note}", soft_wrap=True)
    console.print()
    if accepted := _accepted(report):
        console.print(figures_table(accepted, "accepted tokens per iteration, by kind"))
        console.print()
    console.print(_plan_table(report.plan, report.dtype, len(report.drafts)))
    if report.memory_bytes is not None:
        console.print(_verdict(report), soft_wrap=True)


def _drafts(report: "CheckReport") -> list[Row]:
    measured = any(draft.measured for draft in report.drafts)
    return [_sizes(draft) | (_gains(draft) if measured else {}) for draft in report.drafts]


def _sizes(draft: "DraftReport") -> dict[str, str]:
    load = "-" if draft.load_s is None else f"{'~' if draft.load_estimated else ''}{draft.load_s * 1e3:.1f}"
    return {
        "draft": draft.name,
        "weights": draft.dtype or "-",
        "MB": "-" if draft.nbytes is None else f"{draft.nbytes / MB:.1f}",
        "load ms": load,
    }


def _gains(draft: "DraftReport") -> dict[str, str]:
    found = draft.measured
    return {
        "cost": "-" if found is None else f"{found.cost_ratio:.3f}",
        "tokens per iteration": "-" if found is None else f"{found.tokens_per_iteration:.2f}",
        "speed-up": "-" if found is None else f"{found.speedup:.2f}",
    }


def _accepted(report: "CheckReport") -> list[Row]:
    """Give the accepted tokens of the drafts that were measured, by kind of prompt; nothing if none was."""
    measured = {draft.name: draft.measured.accepted for draft in report.drafts if draft.measured}
    kinds = list(dict.fromkeys(kind for accepted in measured.values() for kind in accepted))
    return [
        {"draft": name, **{kind: f"{accepted[kind]:.2f}" if kind in accepted else "-" for kind in kinds}}
        for name, accepted in measured.items()
    ]


def _notes(report: "CheckReport") -> dict[str, list[str]]:
    notes: dict[str, list[str]] = {}
    for draft in report.drafts:
        for note in draft.notes:
            notes.setdefault(note, []).append(draft.name)
    if any(draft.load_estimated for draft in report.drafts):
        names = [draft.name for draft in report.drafts if draft.load_estimated]
        notes["load time estimated (~) from a storage bandwidth, nothing was loaded"] = names
    return notes


def _plan_table(plan: "MemoryPlan", dtype: str, num_drafts: int) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("what")
    table.add_column("MB", justify="right")
    table.add_column("why")
    rows = (
        ("target", plan.target_bytes, f"weights, {dtype}"),
        ("", plan.packed_bytes, "the same once more, arranged for blocks of tokens"),
        ("drafts", plan.arena_bytes, f"up to {plan.capacity} of {num_drafts} at a time"),
        ("key/value", plan.target_kv_bytes, f"target, {plan.context} tokens"),
        ("", plan.draft_kv_bytes, f"K = {plan.capacity} drafts, as many tokens"),
        ("predictor", plan.predictor_bytes, "weights, float32"),
        ("base", plan.base_bytes, "Python, torch, tokenizer, threads"),
        ("total", plan.total_bytes, ""),
        *((f"on {plan.device}", plan.device_bytes, "weights, keys and values"),) * (plan.device != "cpu"),
    )
    for what, nbytes, why in rows:
        if nbytes:
            table.add_row(what, f"{nbytes / MB:.1f}", why)
    return table


def _verdict(report: "CheckReport") -> str:
    assert report.memory_bytes is not None
    outcome = "does not fit" if report.too_large else "fits"
    return (
        f"{outcome} {report.memory_bytes / MB:.1f} MB of memory; the largest K that fits is {report.fitting_capacity}"
    )
