"""If these fail, the page says something else than the files it was made from."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from pytest import approx

from memspec_actors.bench.paper.claims import Claim, judge
from memspec_actors.bench.paper.evaluation import STUDIES
from memspec_actors.bench.paper.figures import Ratio, scalar, share
from memspec_actors.bench.paper.finding import read_finding
from memspec_actors.comparison import BASE, STRICT
from memspec_actors.errors import TraceError
from memspec_actors.protocols.results import Share
from tests.bench.paper.findings import SPEEDS, comparison, finding, write_findings

BENCH = Path(__file__).parents[3] / "bench"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run bench/report.py on a folder with seven findings."""
    folder = tmp_path_factory.mktemp("results")
    write_findings(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["report.py", str(folder)])
        runpy.run_path(str(BENCH / "report.py"), run_name="__main__")
    return {name: (folder / f"report.{name}").read_text() for name in ("md", "html")}


def section(page: str, name: str) -> str:
    """Cut one study out of the Markdown page, by its title."""
    title = next(study.title for study in STUDIES if study.name == name)
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("study", "line"),
    [
        (
            "throughput",
            "| memspec over general-static | 1.500 | 1.200 | – | 1.700 | 1.588 | ≥ 1.588 | missed by 5.5% |",
        ),
        ("throughput", "| memspec over mab-async | 1.364 | – | – | 1.545 | 1.407 | ≥ 1.407 | missed by 3.1% |"),
        ("throughput", "| memspec over domain-oracle | 0.938 | – | – | – | – | ≥ 0.970 | missed by 3.4% |"),
        ("throughput", "| oracle-dynamic over oracle-static | 1.500 | – | – | – | 1.249 | ≥ 1.249 | met |"),
        ("throughput", "| memspec+ over memspec | 0.980 | – | – | – | – | ≥ 0.990 | missed by 1.0% |"),
        ("breakdown", "| memspec: fallback | 5.0% | – | – | – | < 5.5 % | ≤ 5.5% | met |"),
        ("breakdown", "| memspec: ranking, beside decoding | 3.5% | – | – | – | < 3.9 % | ≤ 3.9% | met |"),
        ("breakdown", "| prediction-only: fallback | – | – | – | – | 21.3 % | – | not measured |"),
        ("latency", "| memspec over general-static | 0.667 | 0.833 | – | 0.588 | 0.677 | ≤ 0.677 | met |"),
        ("interval", "| memspec: N = 4 over 2 | 1.071 | 1.071 | – | – | > 1 | ≥ 1.000 | met |"),
        ("interval", "| memspec: N = 8 over 4 | 0.933 | 0.933 | – | – | about 1 | ≥ 0.950 | missed by 1.8% |"),
        ("interval", "| memspec: N = 4 over 16 | – | – | – | – | > 1 | ≥ 1.000 | not measured |"),
        ("predictor_inputs", "| prompt+recent: top2 | 90.0% | – | – | – | 95.7% | ≥ 95.7% | missed by 5.7 points |"),
        ("predictor_inputs", "| prompt: top1 | – | – | – | – | 31.9% | – | not measured |"),
        ("throughput", "| memspec | 1.500 / 1.200 | 1.500 / 1.200 |"),
        ("adasd", "| gen-only, best data set | 1.240 | – | – | – | 1.422 | ≥ 1.250 | missed by 0.8% |"),
        (
            "adasd",
            "| typical, best data set | 1.300 | – | – | – | – | ≥ 1.460 "
            "| missed: 10.0% of the answers lost there, at least 10.0% anywhere (law) |",
        ),
        ("adasd", "| adasd over assistedgen, geometric mean | 1.250 | – | – | – | 0.974–1.142 | ≥ 1.000 | met |"),
        (
            "adasd",
            "| adasd: right answers lost | 10.0% | – | – | – | < 1.8 % | ≤ 1.8% | missed by 8.2 points |",
        ),
        (
            "adasd",
            "| gen-only over fixed:5, both with memspec, mixed prompts | 1.116 | – | – | – | – | ≥ 1.000 | met |",
        ),
        ("adasd", "| method | law (static:law) | mixed (memspec) | mixed (general-static) | geometric mean |"),
        ("adasd", "| adasd* | 150 (1.50) | 135 (1.35) | 120 (1.20) | 1.500 |"),
        ("adasd", "| adasd* | 85.0% (1.0%) | 85.0% (1.0%) | 85.0% (1.0%) | 85.0% |"),
        ("adasd", "| gen-only | 4.5 of 5.0 | 4.5 of 5.0 | 4.5 of 5.0 |"),
    ],
)
def test_each_figure_stands_beside_the_papers_with_its_verdict(pages: dict[str, str], study: str, line: str) -> None:
    assert line in section(pages["md"], study)


def test_a_study_without_a_file_is_said_to_be_missing(pages: dict[str, str]) -> None:
    for name in ("capacity", "unseen_domain"):
        said = f"Missing: there is no file of this study; python bench/{name}.py --json {name}.json writes it."
        assert said in section(pages["md"], name)
        assert said in pages["html"]
    assert "Missing" not in section(pages["md"], "throughput")


def test_every_finding_is_labelled(pages: dict[str, str]) -> None:
    """A figure without its machine, or emulated without saying so, is worth nothing."""
    for name in ("throughput", "interval", "predictor_inputs"):
        for label in (f"python bench/{name}.py", "(12 s)", "a toaster, 2 cores", "emulated: storage of 1MB/s"):
            assert label in section(pages["md"], name)
    assert "emulated: storage of 1MB/s" in pages["html"]


def test_the_html_page_has_the_same_figures_and_a_picture_of_every_finding(pages: dict[str, str]) -> None:
    html = re.sub(r"<svg.*?</svg>", "", pages["html"], flags=re.DOTALL)
    for line in section(pages["md"], "throughput").splitlines():
        for each in line.split("|")[1:-1]:
            assert each.strip() == "---" or each.strip().replace("<", "&lt;") in html
    assert pages["html"].count("<svg") == 7
    assert "--json &lt;here&gt;" in html
    assert '<tr class="missed"><td>memspec over mab-async</td>' in html
    assert '<tr class="met"><td>oracle-dynamic over oracle-static</td>' in html


def test_goals_are_counted(pages: dict[str, str]) -> None:
    rows = [line.split("|") for line in pages["md"].splitlines() if line.count("|") == 9 and "---" not in line]
    verdicts = [row[8].strip() for row in rows if row[7].strip() not in ("–", "goal")]
    missed = sum(verdict.startswith("missed") for verdict in verdicts)
    counts = f"{verdicts.count('met')} met, {missed} missed, {verdicts.count('not measured')} not measured"
    assert f"Goals: {counts}." in pages["md"]
    assert missed >= 6


def test_every_study_has_its_script() -> None:
    assert [study.name for study in STUDIES if not (BENCH / f"{study.name}.py").is_file()] == []


@pytest.mark.parametrize(("value", "at_most", "met"), [(1.0, False, True), (1.0, True, True), (0.9, True, True)])
def test_a_goal_that_is_just_reached_is_met(value: float, at_most: bool, met: bool) -> None:
    claim = Claim(says="", ours=scalar("x"), goal=1.0, at_most=at_most)
    assert judge(claim, finding("x", {}, {"x": value})).met is met


def test_a_figure_that_does_not_count_misses_its_goal() -> None:
    """Nonsense is decoded fast, and would meet every goal."""
    claim = Claim(says="", ours=scalar("x"), goal=1.0, flaw=lambda _: "nonsense")
    verdict = judge(claim, finding("x", {}, {"x": 2.0}))
    assert (verdict.met, verdict.text) == (False, "missed: nonsense")
    assert judge(claim, finding("x", {}, {})).text == "not measured"


def test_the_ceiling_is_of_replayed_texts_in_the_same_setting() -> None:
    """What real runs of an oracle were timed at is no limit, nor what it reaches with more memory."""
    real = finding("x", {"": comparison()})
    replayed = finding("y", {"": comparison(SPEEDS | {"oracle-dynamic": 170.0})})
    assert judge(Claim(says="", ours=Ratio("memspec")), real, replayed).ceiling == 1.7
    assert judge(Claim(says="", ours=Ratio("memspec")), real).ceiling is None
    assert judge(Claim(says="", ours=Ratio("memspec", setting="")), real, replayed).ceiling == 1.8
    for ours in (Ratio("memspec", "domain-oracle"), Ratio("oracle-static"), Ratio("memspec+", "memspec")):
        assert judge(Claim(says="", ours=ours), real, replayed).ceiling is None


def test_beside_mixed_prompts_stands_the_mean_over_domains() -> None:
    """The paper's figures are of data sets of one domain each: only such means compare with them."""
    law, code, mixed = (
        comparison(SPEEDS | {"memspec": speed}, dataset=name)
        for name, speed in (("law", 400.0), ("code", 100.0), ("mixed", 150.0))
    )
    quieter = tuple(replace(row, share=Share(desired=0.7, fallback=0.1, target_only=0.2)) for row in code.rows)
    found = finding("x", {"": replace(mixed, rows=(*law.rows, *mixed.rows, *quieter))})
    verdict = judge(Claim(says="", ours=Ratio("memspec")), found)
    assert (verdict.ours, verdict.by_domain) == approx((1.5, 2.0))
    fallback = judge(Claim(says="", ours=share("memspec", "fallback")), found)
    assert (fallback.ours, fallback.by_domain) == approx((0.05, (0.05 + 0.125) / 2))
    assert judge(Claim(says="", ours=Ratio("memspec")), finding("x", {"": mixed})).by_domain is None
    assert judge(Claim(says="", ours=Ratio("memspec", dataset="law")), found).by_domain is None


def test_only_what_is_over_the_general_draft_has_a_strict_figure() -> None:
    """Over another policy the general draft's training does not matter."""
    found = finding("x", {"": comparison(dataset="law")})
    ours = judge(Claim(says="", ours=Ratio("memspec", dataset="law")), found)
    assert (ours.ours, ours.strict) == (SPEEDS["memspec"] / SPEEDS[BASE], SPEEDS["memspec"] / SPEEDS[STRICT])
    assert judge(Claim(says="", ours=Ratio("memspec", "mab-async", dataset="law")), found).strict is None


def test_a_file_that_is_no_finding_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "throughput.json"
    path.write_text('{"study": "throughput"}')
    with pytest.raises(TraceError, match=r"throughput\.json.*missing required field"):
        read_finding(path)


def test_a_page_is_not_made_of_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt name would give a page on which everything is missing."""
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path / "resutls")])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(BENCH / "report.py"), run_name="__main__")
    assert end.value.code == 2
    assert "resutls" in capsys.readouterr().err and not list(tmp_path.iterdir())
