"""``memspec drafts``: what it takes, what it prints, how it ends."""

from pathlib import Path

import msgspec
import pytest

from memspec_actors.cli import main


def test_check_prints_the_plan_and_a_line_per_draft(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["drafts", "check", "--target", "zoo", "zoo:law", "mine=zoo:code", "--plan-only", "--memory", "1GB"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["draft", "law", "mine"]
    assert lines[-2].startswith("total")
    assert lines[-1] == "fits 1000.0 MB of memory; the largest K that fits is 2"


def test_a_draft_that_cannot_work_makes_the_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script would go on with a draft that the engine refuses."""
    assert main(["drafts", "check", "zoo:law", str(tmp_path / "gone"), "--plan-only"]) == 1
    assert "gone: cannot work: " in capsys.readouterr().out


def test_json_is_one_object_with_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "memspec.toml"
    config.write_text('[target]\ndtype = "bfloat16"\n[[drafts]]\nname = "law"\n[memory]\ncapacity = 1\n')
    assert main(["drafts", "check", "--config", str(config), "--plan-only", "--json", "--context", "100"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert (report["works"], report["dtype"], report["plan"]["context"]) == (True, "bfloat16", 100)
    assert [draft["name"] for draft in report["drafts"]] == ["law"]
    assert report["plan"]["arena_bytes"] == report["drafts"][0]["nbytes"]
    assert report["total_bytes"] == sum(value for key, value in report["plan"].items() if key.endswith("_bytes"))


@pytest.mark.parametrize(("budget", "capacity", "arena"), [("1", 1, None), ("4MB", 2, 4_000_000)])
def test_a_budget_is_a_number_of_drafts_or_a_size(
    capsys: pytest.CaptureFixture[str], budget: str, capacity: int, arena: int | None
) -> None:
    assert main(["drafts", "check", "--budget", budget, "--plan-only", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["plan"]["capacity"] == capacity
    assert report["plan"]["arena_bytes"] == (arena or report["drafts"][0]["nbytes"])


def test_nothing_to_check_is_bad_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drafts", "check", "--target", str(tmp_path)]) == 2
    assert "there are no drafts to check" in capsys.readouterr().err
