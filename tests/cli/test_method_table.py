"""If these fail, a comparison of methods cannot be read on a terminal."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from memspec_actors.bench.methods_report import scalars
from memspec_actors.cli.method_table import print_methods
from tests.bench.paper.findings import finding, methods


def test_figures_fit_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off at 80 columns, a speed-up of 1.0… says nothing, and a name cut short could be two methods'."""
    monkeypatch.setattr("memspec_actors.cli.method_table.wide_console", lambda: Console(width=80))
    report = methods()
    longest = replace(
        report.rows[0],
        method="adasd+assistedgen",
        lossless=False,
        tokens_per_second=12345.6,
        speedup=1.357,
        drafted_per_step=25.25,
        accepted_per_step=12.5,
        acceptance_rate=0.495,
        departure_share=1.0,
        quality=replace(report.rows[0].quality, task_accuracy=None, log_likelihood=-10.25, agreement=0.125),
    )
    report = replace(report, rows=(*report.rows, longest))
    print_methods(report, replace(finding("adasd", {}, scalars(report)), methods=report))
    out = capsys.readouterr().out
    assert "…" not in out and max(map(len, out.splitlines())) <= 80
    rows = {
        line.split()[0]: line.split()[1:] for line in reversed(out.splitlines()) if line[:6] in ("adasd*", "adasd+")
    }
    assert rows["adasd*"] == ["150", "1.500", "5.00", "4.50", "0.900", "1.0%", "0.850", "-0.12", "0.750"]
    assert rows["adasd+assistedgen*"] == ["12346", "1.357", "25.25", "12.50", "0.495", "100.0%", "-10.25", "0.125"]
    (goal,) = (line for line in out.splitlines() if line.startswith("adasd, best data set"))
    assert goal.split()[-5:] == ["1.500", "1.457", "≥", "1.460", "met"]
