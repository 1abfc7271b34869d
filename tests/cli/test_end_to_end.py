"""From nothing to text by the command alone: build toy models, generate with them, read the log."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from memspec_actors.bench.paper.finding import read_finding
from memspec_actors.bench.paper.report import compose
from memspec_actors.cli import main
from memspec_actors.methods import METHODS
from memspec_actors.protocols.events import Iteration, RequestFinished, SystemStopped
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.telemetry import read

CONFIG = """
target.model = "target"
predictor.path = "encoder"
events.path = "events.jsonl"
schedule.interval = 2
drafts = [{name = "general", model = "general"}, {name = "code", model = "code"}, {name = "law", model = "law"}]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("zoo")
    assert main(["zoo", "build", "--out", str(directory), "--quick", "--json"]) == 0
    (directory / "memspec.toml").write_text(CONFIG, encoding="utf-8")
    return directory


def generate(built: Path, capsys: pytest.CaptureFixture[str], *options: str) -> GenerationResult:
    (built / "events.jsonl").unlink(missing_ok=True)
    command = ["run", "invite Omar to Old Velton", "--config", str(built / "memspec.toml"), "--max-new-tokens", "24"]
    assert main([*command, "--json", *options]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=GenerationResult)


def test_built_models_have_everything(built: Path) -> None:
    names = ("target", "general", "code", "math", "law", "medical", "encoder")
    assert [name for name in names if not (built / name / "model.safetensors").is_file()] == []


def test_finished_build_is_not_done_again(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupted build of hours must go on with what is missing, and only with that."""

    def times() -> dict[str, int]:
        return {file.parent.name: file.stat().st_mtime_ns for file in built.glob("*/*.safetensors")}

    before = times()
    assert main(["zoo", "build", "--out", str(built), "--quick"]) == 0
    assert capsys.readouterr().out == f"built nothing new in {built}\n"
    assert times() == before


def test_policies_give_the_text_of_the_target_alone(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scheduled drafts may change how fast the text comes, never the text."""
    alone = generate(built, capsys, "--policy", "target-only")
    assert alone.metrics.speculative_decoding.num_draft_tokens == 0
    for policy in ("memspec", "general-static", "static:law", "mab-sync"):
        scheduled = generate(built, capsys, "--policy", policy)
        assert scheduled.token_ids == alone.token_ids
        assert scheduled.text == alone.text
        assert scheduled.lossless
    assert scheduled.metrics.speculative_decoding.num_draft_tokens > 0  # it has waited for its drafts


def test_same_seed_gives_the_same_sample(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (generate(built, capsys, "--temperature", "1.5", "--seed", "5") for _ in range(2))
    other = generate(built, capsys, "--temperature", "1.5", "--seed", "6")
    assert first.token_ids == second.token_ids != other.token_ids


def test_log_tells_the_same_story_as_the_result(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures that the log does not give again could not be checked by anybody."""
    result = generate(built, capsys)
    reader = read(built / "events.jsonl")
    events = list(reader)
    iterations = [event for event in events if isinstance(event, Iteration)]
    figures = result.metrics.speculative_decoding
    assert sum(event.drafted for event in iterations) == figures.num_draft_tokens
    assert sum(event.accepted for event in iterations) == figures.num_accepted_draft_tokens
    # The first token comes with the encoding of the prompt, before the first iteration.
    assert sum(event.emitted for event in iterations) + 1 == result.usage.completion_tokens == len(result.token_ids)
    by_draft = Counter({name: used.iterations for name, used in result.scheduling.drafts.items() if used.iterations})
    assert Counter(event.draft.name for event in iterations if event.draft is not None) == by_draft
    finished = [event for event in events if isinstance(event, RequestFinished)]
    assert [event.finish_reason for event in finished] == [result.finish_reason]
    assert isinstance(events[-1], SystemStopped)
    assert [getattr(event, "seq", None) for event in events] == list(range(1, len(events) + 1))
    assert events[-1].records == len(events)
    assert (reader.skipped, reader.unknown) == (0, 0)


def test_methods_are_compared_and_the_outcome_is_a_finding(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lossless method with another text than vanilla's, or a file that the page of findings cannot show."""
    (built / "prompts.txt").write_text("invite Omar to Old Velton\n", encoding="utf-8")
    out = built / "adasd.json"
    options = ["--prompts", str(built / "prompts.txt"), "--policy", "static:law", "--max-new-tokens", "12"]
    assert main(["bench", "adasd", *options, "--config", str(built / "memspec.toml"), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "adasd*" in printed and "gen-only, best data set" in printed

    finding = read_finding(out)
    assert finding.methods is not None
    rows = {row.method: row for row in finding.methods.rows}
    assert rows.keys() == {*METHODS, "target", "draft"}
    assert rows["vanilla"].speedup == 1.0 and rows["target"].drafted_per_step == 0.0
    assert {name for name, row in rows.items() if not row.lossless} == {
        "verify-only", "adasd", "adasd+assistedgen", "adasd+gain", "typical", "draft",
    }  # fmt: skip
    assert all(row.quality.agreement == 1.0 and row.departure_share == 0.0 for row in rows.values() if row.lossless)
    assert finding.methods.best["gen-only"] == rows["gen-only"].speedup
    (section,) = (each for each in compose({"adasd": finding}).sections if each.study.name == "adasd")
    assert [row[0].rstrip("*") for row in section.tables[0].rows] == list(rows)
