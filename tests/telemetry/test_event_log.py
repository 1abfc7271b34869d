"""The writer: every record whole, one write each, and a log that fails alone."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.protocols.events import (
    DraftLoadFailed,
    Event,
    IntervalFinished,
    Iteration,
    PredictionMade,
    RankingApplied,
    SystemStopped,
)
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry import EventLog, read

Lines = list[dict[str, object]]


def ranking(interval: int = 0, order: tuple[str, ...] = ("code", "math")) -> RankingApplied:
    return RankingApplied(actor="decoder", request_id="r1", interval=interval, order=order)


def iteration() -> Iteration:
    return Iteration(
        actor="decoder",
        iteration=1,
        draft=None,
        desired=None,
        share="target_only",
        drafted=0,
        accepted=0,
        emitted=1,
        committed=9,
        catch_up_tokens=0,
        catch_up_us=0.0,
        draft_us=0.0,
        verify_us=1.0,
        wall_us=1.0,
        gap_us=50.0,
        waited_us=0.0,
    )


def lines_of(path: Path) -> Lines:
    text = path.read_bytes()
    assert text.endswith(b"\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def test_record_is_one_line_of_json_with_the_common_fields(tmp_path: Path) -> None:
    """A reader in any language must find every field by name, the time and a number included."""
    ticks = iter([(1000.5, 1.25), (1001.5, 2.25)])
    log = EventLog.open(tmp_path / "log", clock=lambda: next(ticks))
    log.write(ranking(interval=3, order=("a\n", "ünïcode\u2028")))
    log.write(SystemStopped(actor="engine", reason="closed", records=log.records))
    log.close()
    assert lines_of(tmp_path / "log") == [
        {
            "event": "ranking_applied",
            "seq": 1,
            "ts": 1000.5,
            "mono": 1.25,
            "actor": "decoder",
            "request_id": "r1",
            "interval": 3,
            "epoch": None,
            "order": ["a\n", "ünïcode\u2028"],
        },
        {
            "event": "system_stopped",
            "seq": 2,
            "ts": 1001.5,
            "mono": 2.25,
            "actor": "engine",
            "request_id": None,
            "interval": None,
            "epoch": None,
            "reason": "closed",
            "records": 1,
            "mailbox_peaks": {},
        },
    ]


def test_system_clock_is_used_by_default(tmp_path: Path) -> None:
    """Records of a log and of a journal beside it could not be put in order if the time were not the machine's."""
    before = time.time(), time.monotonic()
    log = EventLog.open(tmp_path / "log")
    log.write(ranking())
    log.close()
    after = time.time(), time.monotonic()
    (record,) = lines_of(tmp_path / "log")
    assert before[0] <= float(str(record["ts"])) <= after[0]
    assert before[1] <= float(str(record["mono"])) <= after[1]


def test_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes a record could be torn apart by a kill or by another process that appends to the same file."""
    written: list[bytes] = []
    real_write = os.write

    def write(fd: int, data: bytes | bytearray) -> int:
        written.append(bytes(data))
        return real_write(fd, data)

    log = EventLog.open(tmp_path / "log")
    monkeypatch.setattr(os, "write", write)
    for interval in range(50):
        log.write(ranking(interval, order=("x" * interval * 100,)))
    log.close()
    assert len(written) == 50
    assert b"".join(written) == (tmp_path / "log").read_bytes()
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in written)


def test_file_is_opened_for_appending(tmp_path: Path) -> None:
    """A run must not overwrite the records of the one before."""
    for interval in range(2):
        log = EventLog.open(tmp_path / "log")
        log.write(ranking(interval))
        log.close()
    assert [line["interval"] for line in lines_of(tmp_path / "log")] == [0, 1]


@pytest.mark.parametrize("rotate_bytes", [None, 100])
def test_a_file_that_another_engine_writes_to_is_refused(rotate_bytes: int | None, tmp_path: Path) -> None:
    """The records of two would lie among each other: audits would find breaches, and summaries count them twice."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=rotate_bytes)
    for interval in range(2):
        log.write(ranking(interval))
        with pytest.raises(ConfigError, match=r"log cannot be opened: another engine is writing to it; give another"):
            EventLog.open(tmp_path / "log")
    log.close()
    EventLog.open(tmp_path / "log").close()


def test_a_file_that_another_engine_takes_amid_a_rotation_ends_the_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of a file would reach whoever decodes, and the log that was full stay open to the end."""
    path, rename, others = tmp_path / "log", Path.rename, []

    def rename_and_take(file: Path, target: Path) -> Path:
        moved = rename(file, target)
        others.append(EventLog.open(path))
        return moved

    log = EventLog.open(path, rotate_bytes=100)
    log.write(ranking(0))
    monkeypatch.setattr(Path, "rename", rename_and_take)
    log.write(ranking(1))
    assert (log.enabled, log.records) == (False, 1)
    assert "another engine is writing to it" in capsys.readouterr().err
    log.close()
    EventLog.open(tmp_path / "log.1").close()
    (other,) = others
    other.write(ranking(2))
    other.close()
    assert [line["interval"] for line in lines_of(path)] == [2]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_torn_tail_does_not_spoil_the_next_record(tmp_path: Path, cut: int) -> None:
    """After a kill in the middle of a write, the first record of the next run would be lost with the torn one."""
    path = tmp_path / "log"
    path.write_bytes(
        b'{"event":"ranking_applied"}\n' + b'{"event":"ranking_applied","seq":2,"order":["xxxxxxxxx"]}'[:-cut]
    )
    log = EventLog.open(path)
    log.write(ranking(interval=7))
    log.close()
    assert json.loads(path.read_bytes().splitlines()[-1])["interval"] == 7


def test_whole_tail_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event":"x"}\n')
    EventLog.open(path).close()
    assert path.read_bytes() == b'{"event":"x"}\n'


KILLED = """
import sys
from memspec_actors.telemetry import EventLog
from memspec_actors.protocols.events import RankingApplied
log = EventLog.open(sys.argv[1])
interval = 0
while True:
    log.write(RankingApplied(actor="decoder", interval=interval, order=("x" * (interval % 5000),)))
    interval += 1
    if interval == 300:
        print("go", flush=True)
"""


def test_kill_loses_at_most_the_record_being_written(tmp_path: Path) -> None:
    """Records held in a buffer would be gone with the process, and the log with the story of its death."""
    path = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    *whole, tail = path.read_bytes().split(b"\n")
    assert len(whole) >= 300
    assert [json.loads(line)["interval"] for line in whole] == list(range(len(whole)))
    assert len(tail) < 5200


def test_no_path_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a log, an event must cost next to nothing: no stamp, no encoding, no file."""
    monkeypatch.chdir(tmp_path)
    log = EventLog.open(None, clock=lambda: pytest.fail("stamped for nothing"))
    log.write(ranking())
    log.close()
    assert (log.enabled, log.records, log.error, list(tmp_path.iterdir())) == (False, 0, None, [])


def test_close_is_final_and_repeatable(tmp_path: Path) -> None:
    """A late event of a stopping actor must neither fail nor land in whatever file has that descriptor now."""
    log = EventLog.open(tmp_path / "log")
    log.write(ranking())
    log.close()
    size = (tmp_path / "log").stat().st_size
    log.close()
    log.write(ranking())
    assert ((tmp_path / "log").stat().st_size, log.enabled, log.records) == (size, False, 1)


def test_level_info_leaves_out_what_comes_per_iteration(tmp_path: Path) -> None:
    interval = IntervalFinished(actor="decoder", iterations=4, drafted=20, accepted=9, emitted=13)
    expected: dict[Literal["info", "debug"], list[str]] = {
        "info": ["ranking_applied"],
        "debug": ["iteration", "ranking_applied", "interval_finished"],
    }
    for level in expected:
        log = EventLog.open(tmp_path / level, level=level)
        for event in (iteration(), ranking(), interval):
            log.write(event)
        log.close()
        lines = lines_of(tmp_path / level)
        assert [line["event"] for line in lines] == expected[level]
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_disables_the_log_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk must end the log, not the generation, and must be said once, not once per token."""
    log = EventLog.open("/dev/full")
    for _ in range(5):
        log.write(ranking())
    assert log.error is not None
    assert (log.enabled, log.records) == (False, 0)
    said = capsys.readouterr().err
    assert said == f"memspec: warning: {log.error}\n"
    assert "/dev/full" in said
    assert os.strerror(errno.ENOSPC) in said
    log.close()


LIMITED = """
import resource, signal, sys
from memspec_actors.telemetry import EventLog
from memspec_actors.protocols.events import RankingApplied
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
log = EventLog.open(sys.argv[1])
for interval in range(100):
    log.write(RankingApplied(actor="decoder", interval=interval, order=("code",)))
print(log.records)
"""


def test_file_that_may_not_grow_keeps_its_whole_records(tmp_path: Path) -> None:
    """A short write must count as a failure: the record is torn, so the log may not go on as if it were there."""
    path = tmp_path / "log"
    outcome = subprocess.run(
        [sys.executable, "-c", LIMITED, path, "1000"], capture_output=True, text=True, check=True, timeout=60
    )
    records = int(outcome.stdout)
    *whole, torn = path.read_bytes().split(b"\n")
    assert 0 < records < 100
    assert [json.loads(line)["interval"] for line in whole] == list(range(records))
    assert len(path.read_bytes()) <= 1000
    assert not torn.endswith(b"}")
    assert outcome.stderr.count("\n") == 1


def test_short_write_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going on after half a record would glue the next one to it and lose both."""
    path = tmp_path / "log"
    log = EventLog.open(path)
    log.write(ranking(0))
    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[: len(data) // 2])))
        log.write(ranking(1))
    log.write(ranking(2))
    assert (log.enabled, log.records) == (False, 1)
    whole, torn = path.read_bytes().split(b"\n")
    assert json.loads(whole)["interval"] == 0
    assert torn.startswith(b'{"event":"ranking_applied"')


def test_rotation_never_splits_nor_loses_a_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = EventLog.open(path, rotate_bytes=1000)
    for interval in range(60):
        log.write(ranking(interval, order=("x" * (interval * 37 % 300),)))
    log.close()
    files = [path, *(path.with_name(f"log.{number}") for number in range(1, len(list(tmp_path.iterdir()))))]
    assert len(files) > 5
    assert [line["seq"] for file in reversed(files) for line in lines_of(file)] == list(range(1, 61))
    assert max(file.stat().st_size for file in files) <= 1000
    # A file is set aside only when the next record would not have fitted.
    newer = files[:-1]
    for file, older in zip(newer, files[1:], strict=True):
        assert older.stat().st_size + len(file.read_bytes().splitlines()[0]) + 1 > 1000


def test_record_longer_than_a_file_may_be_is_kept_whole(tmp_path: Path) -> None:
    log = EventLog.open(tmp_path / "log", rotate_bytes=100)
    for interval in range(3):
        log.write(ranking(interval))
    log.close()
    assert {file.name: [line["interval"] for line in lines_of(file)] for file in tmp_path.iterdir()} == {
        "log": [2],
        "log.1": [1],
        "log.2": [0],
    }


def test_rotation_goes_on_where_an_earlier_run_stopped(tmp_path: Path) -> None:
    """A restart must not rename a newer file over an older one."""
    for interval in range(4):
        log = EventLog.open(tmp_path / "log", rotate_bytes=10)
        log.write(ranking(interval))
        log.close()
    assert [lines_of(tmp_path / f"log{end}")[0]["interval"] for end in ("", ".1", ".2", ".3")] == [3, 2, 1, 0]


def test_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """A typo in the path must be told at the start, not found out when the log is missed."""
    for path in (tmp_path / "missing" / "log", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            EventLog.open(path)


def test_undecodable_file_name_in_an_error_is_still_logged(tmp_path: Path) -> None:
    """A model directory with a name that is not UTF-8 must not crash the actor that reports on it."""
    log = EventLog.open(tmp_path / "log")
    name = os.fsdecode(b"/models/\xff.safetensors")
    failed: Event = DraftLoadFailed(
        actor="loader", draft=ResidentDraft("code", 1), error=f"cannot read {name}", retry_in_s=1.0, reserved_bytes=0
    )
    log.write(failed)
    log.write(ranking())
    log.close()
    first, second = lines_of(tmp_path / "log")
    assert first["error"] == "cannot read /models/?.safetensors"
    assert first["draft"] == {"name": "code", "generation": 1}
    assert (first["seq"], second["seq"]) == (1, 2)


def test_draft_that_was_never_tried_has_a_score_that_can_be_read(tmp_path: Path) -> None:
    """Bandits give it an infinite one, and JSON has no infinity: the record would be lost to every reader."""
    log = EventLog.open(tmp_path / "log")
    log.write(
        PredictionMade(
            actor="predictor", policy="mab-sync", order=("a", "b"), scores=(float("inf"), 0.5), predict_us=1.0,
            cpu_us=1.0,
            context_tokens=1,
        )
    )  # fmt: skip
    log.close()
    (record,) = read(tmp_path / "log")
    assert isinstance(record, PredictionMade)
    assert record.scores == (None, 0.5)
