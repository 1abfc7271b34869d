"""``memspec events``: what it prints, and how it exits."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from msgspec.structs import replace

from memspec_actors.cli import main
from memspec_actors.cli.events_tail import Choice, tail
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry import EventLog

CODE = ResidentDraft("code", 1)


def iteration(index: int, draft: ResidentDraft | None = CODE) -> events.Iteration:
    return events.Iteration(
        actor="decoder",
        request_id="r1",
        interval=0,
        epoch=1,
        iteration=index,
        draft=draft,
        desired="code",
        share="desired",
        drafted=4,
        accepted=3,
        emitted=4,
        committed=4 + 4 * (index + 1),
        catch_up_tokens=0,
        catch_up_us=0.0,
        draft_us=1000.0,
        verify_us=3000.0,
        wall_us=4500.0,
        gap_us=500.0,
        waited_us=0.0,
    )


def good_records() -> list[Event]:
    """A run of one request with one draft, killed after its second iteration."""
    return [
        events.SystemStarted(
            actor="engine", version="1", target="t", drafts={"code": 10}, capacity=1, budget_bytes=10, policy="memspec",
            stop_rule="fixed:4", accept="auto", schedule_interval=4, recent_tokens=64, prediction="overlapped",
            emulated_bandwidth=None, dtype="float32", threads=1,
        ),
        events.RequestAccepted(
            actor="decoder", request_id="r1", prompt_tokens=3, max_new_tokens=20, policy="memspec", stop_rule="fixed:4",
            accept="exact", temperature=0.0, seed=1, lossless=True,
        ),
        events.PredictionMade(
            actor="predictor", request_id="r1", interval=0, policy="memspec", order=("code",), scores=(1.0,),
            predict_us=2000.0, cpu_us=900.0, context_tokens=3,
        ),
        events.RankingApplied(actor="cache_manager", request_id="r1", interval=0, order=("code",)),
        events.DraftLoadStarted(actor="cache_manager", draft=CODE, nbytes=10, resident_bytes=0, reserved_bytes=10),
        events.DraftLoadFinished(actor="cache_manager", draft=CODE, nbytes=10, wall_us=7000.0, emulated=False),
        events.ResidencyAnnouncedEvent(
            actor="cache_manager", epoch=1, resident=(CODE,), reason="code joined", resident_bytes=10, reserved_bytes=0
        ),
        events.DraftActivatedEvent(actor="decoder", request_id="r1", epoch=1, draft=CODE, previous=None, iteration=0),
        events.ResidencyAcknowledged(actor="decoder", epoch=1, active=CODE),
        iteration(0),
        iteration(1),
    ]  # fmt: skip


def write(path: Path, records: list[Event]) -> Path:
    ticks = iter(range(10_000))
    log = EventLog.open(path, clock=lambda: (1e9 + next(ticks) / 100, next(ticks) / 100))
    for record in records:
        log.write(record)
    log.close()
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "log.jsonl", good_records())


def test_summary_has_the_fields_that_programs_rely_on(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "summary", str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requests"], found["tokens"]) == (1, 9)
    assert found["tokens_per_second"] == pytest.approx(8 / 0.010)
    assert set(found["share"]) == {"desired", "fallback", "prediction", "waited", "catch_up", "target_only"}
    assert (found["loads"], found["evictions"], found["switches"]) == (1, 0, 0)
    assert found["prefetch"] == {"useful": 1, "wasted": 0}
    assert found["drafts"]["code"]["accepted"] == 6


@pytest.mark.parametrize(("by", "row"), [("draft", "code"), ("request", "r1"), ("domain", "code")])
def test_summary_has_a_row_for_each(log: Path, by: str, row: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "summary", str(log), "--by", by]) == 0
    figures, table = capsys.readouterr().out.rstrip().split("\n\n")
    assert "800.0 over" in figures
    assert [line.split()[0] for line in table.splitlines()] == [by, row]


def test_summary_of_long_drafts_fits_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A figure for each of forty positions would squeeze all others out of the table."""
    positions = "100 100 100 33 33 %, 33 at 10, 33 at 20, 0 at 30, 0 at 40"
    long = replace(iteration(2), drafted=40, accepted=25, emitted=26, committed=38)
    log = write(tmp_path / "log", [*good_records(), long])
    assert main(["events", "summary", str(log)]) == 0
    figures, table = capsys.readouterr().out.rstrip().split("\n\n")
    assert f"by position {positions} share" in " ".join(figures.split())
    names, row = table.splitlines()
    assert names.split() == "draft steps tokens accepted length by position loads useful wasted".split()
    assert row.split() == f"code 3 34 64.6% 11.33 {positions} 1 1 0".split()


def test_audit_of_a_good_log_exits_with_0(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "audit", str(log)]) == 0
    assert "broken" not in capsys.readouterr().out
    assert main(["events", "audit", str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["checked"], found["violations"]) == (11, [])


def test_audit_of_a_bad_log_exits_with_1_and_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "log", [*good_records()[:-1], iteration(1, draft=ResidentDraft("law", 1))])
    assert main(["events", "audit", str(log)]) == 1
    out = capsys.readouterr().out
    assert "law#1 ran in epoch 1, which does not name it" in out
    assert "log:11: invariant 1" in out.replace("\n", "")
    assert main(["events", "audit", str(log), "--json"]) == 1
    (violation,) = json.loads(capsys.readouterr().out)["violations"]
    assert (violation["invariant"], violation["seqs"], violation["line"]) == (1, [7, 11], 11)


@pytest.mark.parametrize("command", ["summary", "audit", "compare", "timeline", "trace"])
def test_a_record_of_another_version_is_warned_of_by_place(
    log: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures would lack what it tells, or an invariant seem broken, and nobody would know why."""
    with log.open("a") as file:
        file.write('torn\n{"event":"draft_dreamt","seq":12}\n{"event":"ranking_applied","seq":13,"actor":"decoder"}\n')
    outputs = {
        "timeline": ["-o", str(tmp_path / "t.html")],
        "trace": ["-o", str(tmp_path / "t")],
        "compare": [str(log)],
    }
    assert main(["events", command, str(log), *outputs.get(command, ())]) == 0
    line, *others = capsys.readouterr().err.splitlines()
    number = len(log.read_text().splitlines()) - 1
    assert line.startswith(f"memspec: warning: records of another version left out: 2; the first: {log}:{number}: ")
    assert "draft_dreamt: Invalid value" in line
    assert others == ([line] if command == "compare" else [])


def test_schema_accepts_every_record_and_no_other(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader in another language would refuse good records, or take bad ones."""
    assert main(["events", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    validator = jsonschema_rs.validator_for(schema)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(validator.is_valid(record) for record in records)
    assert not validator.is_valid(records[-1] | {"drafted": "four"})
    assert not validator.is_valid(records[-1] | {"event": "draft_dreamt"})


@pytest.mark.parametrize("command", ["summary", "audit"])
@pytest.mark.parametrize("content", [None, b"", b"notes\n"])
def test_file_that_is_no_log_is_named(
    tmp_path: Path, command: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    if content is not None:
        path.write_bytes(content)
    assert main(["events", command, str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "notes.txt" in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("name", ["out.html", "out.svg", "out.PNG"])
def test_timeline_is_written_as_its_name_says(log: Path, tmp_path: Path, name: str) -> None:
    assert main(["events", "timeline", str(log), "-o", str(tmp_path / name)]) == 0
    starts = {".html": b"<!doctype html>", ".svg": b"<?xml", ".png": b"\x89PNG"}
    assert (tmp_path / name).read_bytes().startswith(starts[Path(name).suffix.lower()])


def test_trace_is_json(log: Path, tmp_path: Path) -> None:
    assert main(["events", "trace", str(log), "-o", str(tmp_path / "trace.json")]) == 0
    rows = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    assert {row["name"] for row in rows if row["ph"] == "s"} == {"ranking", "load", "announcement"}


@pytest.mark.parametrize(("command", "name"), [("timeline", "out.pdf"), ("timeline", "no/o.html"), ("trace", "no/o")])
def test_file_that_cannot_be_written_is_named(
    log: Path, tmp_path: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", command, str(log), "-o", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


def test_comparison_shows_what_changed(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    longer = write(tmp_path / "longer.jsonl", [*good_records(), iteration(2)])
    assert main(["events", "compare", str(log), str(longer), "--json"]) == 0
    figures = {change["name"]: change for change in json.loads(capsys.readouterr().out)["figures"]}
    assert (figures["tokens"]["a"], figures["tokens"]["b"]) == (9, 13)
    assert main(["events", "compare", str(log), str(longer)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["log.jsonl", "longer.jsonl", "b", "/", "a"]
    assert "tokens 9 13 1.44" in [" ".join(line.split()) for line in lines]


def test_tail_shows_the_last_records_of_those_wanted(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "tail", str(log), "-n", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "iteration" in first and "0: code#1, 3 of 4 accepted" in first
    assert "1: code#1" in second
    options = ["--actor", "decoder", "--request", "r", "--event", "draft_activated", "--event", "request_accepted"]
    assert main(["events", "tail", str(log), *options, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["seq"] for record in records] == [2, 8]


def test_tail_puts_what_happened_in_one_column(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name longer than its column would push the rest of its line aside."""
    later = EventLog.open(log)
    for actor in ("engine", "decoder", "predictor", "cache_manager", "loader", "verifier_stats"):
        later.write(replace(iteration(9), actor=actor))
    later.close()
    assert main(["events", "tail", str(log), "--event", "iteration"]) == 0
    assert len({line.index(" iteration ") for line in capsys.readouterr().out.splitlines()}) == 1


def test_tail_follows_what_is_written(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Filters hold for what comes later too."""
    batches: list[list[Event]] = [[iteration(2), good_records()[3]], [], [iteration(3)]]

    def wait() -> None:
        if not batches:
            raise KeyboardInterrupt
        later = EventLog.open(log)
        for record in batches.pop(0):
            later.write(record)
        later.close()

    with pytest.raises(KeyboardInterrupt):
        tail(str(log), Choice(events=["iteration"]), number=1, follow=True, json=False, wait=wait)
    numbers = [line.split("r1")[1].split(":")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert numbers == ["1", "2", "3"]


def test_tail_keeps_what_it_does_not_know(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with log.open("a") as file:
        file.write('torn\n{"event":"draft_dreamt","seq":12,"actor":"dreamer","of":"sheep"}\n')
    assert main(["events", "tail", str(log), "-n", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split() == ["??:??:??.???", "dreamer", "draft_dreamt", "of=sheep"]


def test_event_that_does_not_exist_is_refused(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo would show nothing, for ever."""
    assert main(["events", "tail", str(log), "--event", "draft_evictd"]) == 2
    assert "did you mean 'draft_evicted'?" in capsys.readouterr().err
