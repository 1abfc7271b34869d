"""``memspec drafts``: what it takes, what it prints, how it ends."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memspec_actors import zoo
from memspec_actors.cli import main
from memspec_actors.drafts.settings import DistillReport, DistillSettings


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


def test_quantising_without_auto_gptq_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user would not know that it takes another environment."""
    monkeypatch.setitem(sys.modules, "auto_gptq", None)
    arguments = ["--from", "zoo:law", "--prompts", "zoo:train:2", "--out", str(tmp_path / "out")]
    assert main(["drafts", "quantize", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "auto-gptq" in line
    assert "memspec-actors[auto-gptq]" in line


def test_json_is_one_object_with_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "memspec.toml"
    config.write_text('[target]\ndtype = "bfloat16"\n[[drafts]]\nname = "law"\n[memory]\ncapacity = 1\n')
    assert main(["drafts", "check", "--config", str(config), "--plan-only", "--json", "--context", "100"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert (report["works"], report["dtype"], report["plan"]["context"]) == (True, "bfloat16", 100)
    assert [draft["name"] for draft in report["drafts"]] == ["law"]
    assert report["plan"]["arena_bytes"] == report["drafts"][0]["nbytes"]
    assert report["total_bytes"] == sum(value for key, value in report["plan"].items() if key.endswith("_bytes"))


@pytest.mark.parametrize(("budget", "capacity", "arena"), [("1", 1, None), ("2MB", 2, 2_000_000)])
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


def test_distill_needs_prompts_of_one_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run would silently learn from half of what was asked for."""
    begin = ["drafts", "distill", "--target", "zoo", "--from", "zoo:general", "--out", str(tmp_path / "out")]
    assert main(begin) == 2
    assert main([*begin, "--domain", "law", "--data", "prompts.txt"]) == 2
    assert main([*begin, "--domain", "poetry"]) == 2
    assert main([*begin, "--domain", "law", "--dtype", "complex64"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4
    assert "either --data FILE (repeat it) or --domain NAME" in errors[0]
    assert "poetry" in errors[2]
    assert "complex64" in errors[3]
    assert not (tmp_path / "out").exists()


def test_distill_hands_over_what_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options would be taken and not heeded."""
    seen: list[Any] = []

    def distill(settings: DistillSettings, learnt: Any, held_out: Any, out: Path, progress: Any) -> DistillReport:
        seen.extend((settings, learnt, held_out, out))
        return DistillReport(
            settings=settings,
            num_prompts=2,
            num_tokens=9,
            num_held_out=1,
            loss=0.5,
            accepted_before={"all": 1.0},
            accepted_after={"all": 1.5},
        )

    monkeypatch.setattr("memspec_actors.drafts.distillation.distill", distill)
    data = tmp_path / "prompts.txt"
    data.write_text("one\ntwo\nthree\nfour\n")
    out = tmp_path / "out"
    command = ["drafts", "distill", "--target", "zoo", "--from", "zoo:general", "--data", str(data), "--out", str(out)]
    numbers = ["--epochs", "7", "--top-k", "0", "--seed", "3", "--temperature", "0.5", "--logits-weight", "1"]
    assert main([*command, *numbers, "--held-out", "1", "--num-prompts", "2", "--json"]) == 0
    settings, learnt, held_out, where = seen
    assert (settings.epochs, settings.top_k, settings.seed, settings.temperature) == (7, 0, 3, 0.5)
    assert (settings.logits_weight, Path(settings.draft).name, where) == (1.0, "general", out)
    assert (len(learnt), len(held_out)) == (2, 1)
    printed = msgspec.json.decode(capsys.readouterr().out)
    assert (printed["accepted_before"], printed["accepted_after"]) == ({"all": 1.0}, {"all": 1.5})


def test_another_target_has_no_embedded_predictor(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory would be planned for a predictor that does not run there."""
    directory = str(zoo.path("target"))
    assert main(["drafts", "check", "--target", directory, "zoo:law", "--plan-only", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["plan"]["predictor_bytes"] == 0
    assert main(["drafts", "check", "--target", "zoo", "zoo:law", "--plan-only", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["plan"]["predictor_bytes"] > 0
