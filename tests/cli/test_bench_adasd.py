"""If these fail, what `memspec bench adasd` found cannot be read back, or measured again."""

import sys
from pathlib import Path

import pytest

from memspec_actors.bench.methods_report import MethodsReport, scalars
from memspec_actors.bench.paper.finding import read_finding
from memspec_actors.cli import main
from tests.bench.paper.findings import methods


@pytest.mark.parametrize(
    ("started", "command"),
    [
        (["bench/adasd.py"], "python bench/adasd.py"),
        (["/lib/memspec_actors/__main__.py", "bench", "adasd"], "python -m memspec_actors bench adasd"),
        (["/bin/memspec", "bench", "adasd"], "memspec bench adasd"),
    ],
)
def test_a_finding_says_what_was_measured_and_how_to_measure_it_again(
    started: list[str],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def compare(*_: object, **__: object) -> MethodsReport:
        return methods()

    path = tmp_path / "new" / "adasd.json"
    options = ["--quick", "--json", str(path)]
    monkeypatch.setattr("memspec_actors.bench.adasd.compare", compare)
    monkeypatch.setattr(sys, "argv", [*started, *options])
    assert main(["bench", "adasd", *options]) == 0
    finding = read_finding(path)
    assert (finding.study, finding.command) == ("adasd", f"{command} --quick --json {path}")
    assert finding.setting.startswith("2 prompts of each data set, at most 9 tokens each; ")
    assert (finding.methods, finding.scalars) == (methods(), scalars(methods()))
    assert (finding.quick, finding.threads, finding.dtype) == (True, 1, "float32")
    assert "adasd, best data set" in capsys.readouterr().out
