"""If these fail, a check of drafts is cut off on a narrow terminal, or tells one draft's figures of another."""

import pytest
from rich.console import Console

from memspec_actors.cli.drafts_tables import show_check
from memspec_actors.drafts.memory_plan import MemoryPlan
from memspec_actors.drafts.report import CheckReport, DraftReport, Measured

PLAN = MemoryPlan(
    target_bytes=10**9, packed_bytes=0, arena_bytes=10**8, capacity=2, context=100, target_kv_bytes=10**6,
    draft_kv_bytes=10**5, predictor_bytes=0, base_bytes=10**8,
)  # fmt: skip


def report(*drafts: DraftReport) -> CheckReport:
    return CheckReport(
        target="t", dtype="float32", num_draft_tokens=5, drafts=drafts, plan=PLAN, total_bytes=PLAN.total_bytes,
        device_bytes=PLAN.total_bytes, memory_bytes=None, fitting_capacity=None,
    )  # fmt: skip


def a_draft(name: str, *, estimated: bool = False, measured: Measured | None = None) -> DraftReport:
    return DraftReport(
        name=name, model=name, dtype="int8 + bfloat16", nbytes=630_800_000, load_s=1.9761, load_estimated=estimated,
        measured=measured,
    )  # fmt: skip


def measured(accepted: dict[str, float]) -> Measured:
    return Measured(load_s=1.9761, cost_ratio=0.125, accepted=accepted, tokens_per_iteration=3.13, speedup=1.56)


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memspec_actors.cli.drafts_tables.wide_console", lambda: Console(width=80))


@pytest.mark.usefixtures("console")
def test_what_was_measured_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Drafts were read over different kinds of prompts, and one not at all."""
    show_check(
        report(
            a_draft("general", measured=measured({"all": 2.13, "law": 1.7})),
            a_draft("medical", measured=measured({"all": 4.0, "medical": 4.82})),
            DraftReport(name="broken", model="b", problem="no weights"),
        )
    )
    out = capsys.readouterr().out
    assert "…" not in out
    lines: list[list[str]] = [line.split() for line in out.splitlines()]
    assert "general int8 + bfloat16 630.8 1976.1 0.125 3.13 1.56".split() in lines
    assert "broken - - - - - -".split() in lines
    first = lines.index(["draft", "all", "law", "medical"])
    assert lines[first + 1 : first + 4] == [["general", "2.13", "1.70", "-"], ["medical", "4.00", "-", "4.82"], []]


@pytest.mark.usefixtures("console")
def test_what_was_not_measured_has_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    show_check(report(a_draft("law", estimated=True)))
    out = capsys.readouterr().out
    assert "law int8 + bfloat16 630.8 ~1976.1".split() == out.splitlines()[1].split()
    assert "accepted" not in out
