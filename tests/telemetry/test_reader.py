"""The reader: what can be read is read, what cannot is counted."""

import gzip
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import pytest
import zstandard

from memspec_actors.errors import UsageError
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event, RankingApplied, SystemStopped
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry import EventLog, EventReader, UnknownEvent, log_files, read, to_records


def write(path: Path, *written: Event) -> None:
    log = EventLog.open(path, clock=lambda: (1.0, 2.0))
    for event in written:
        log.write(event)
    log.close()


def ranking(interval: int) -> RankingApplied:
    return RankingApplied(actor="decoder", interval=interval, order=("code",))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    stopped = SystemStopped(actor="engine", reason="closed", records=1)
    write(tmp_path / "log", ranking(1), stopped)
    reader = read(tmp_path / "log")
    replace = msgspec.structs.replace
    assert list(reader) == [
        replace(ranking(1), seq=1, ts=1.0, mono=2.0),
        replace(stopped, seq=2, ts=1.0, mono=2.0),
    ]
    assert (reader.skipped, reader.unknown) == (0, 0)


def test_every_kind_of_event_is_known() -> None:
    """An event left out of the reader's union would come back as unknown from this very version's logs."""
    kinds = [getattr(events, name) for name in events.__all__]
    structs = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event]
    assert set(structs) == set(Event.__subclasses__())


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_torn_record_is_counted_and_skipped(tmp_path: Path, cut: int) -> None:
    """Wherever a kill tore the last record, the records of both runs must come back."""
    path = tmp_path / "log"
    write(path, ranking(1), ranking(2))
    path.write_bytes(path.read_bytes()[: -1 - cut])
    write(path, ranking(3))
    reader = read(path)
    assert [event.interval for event in reader if isinstance(event, RankingApplied)] == [1, 3]
    assert (reader.skipped, reader.unknown) == (1, 0)


def test_foreign_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, ranking(1))
    with path.open("ab") as file:
        file.write(
            b'warning: something\n\n[1, 2]\n{"event": 3, "seq": 1}\n{"level": "info"}\n\xff\xfe\n{"event":"x"}\n'
            + b"[" * 100_000  # too deep for any parser
            + b"\n"
        )
    write(path, ranking(2))
    reader = read(path)
    assert [event.interval for event in reader if isinstance(event, RankingApplied)] == [1, 2]
    assert (reader.skipped, reader.unknown) == (8, 0)


def test_newer_records_are_kept_as_they_are(tmp_path: Path) -> None:
    """A log of a newer version, with new events and new fields, must still be readable for what is known of it."""
    path = tmp_path / "log"
    path.write_bytes(
        b'{"event":"draft_dreamt","seq":1,"of":"sheep"}\n'
        b'{"event":"ranking_applied","seq":2,"actor":"decoder","order":["a"],"mood":"good"}\n'
        b'{"event":"ranking_applied","seq":3,"actor":"decoder","order":"changed its type"}\n'
    )
    reader = read(path)
    assert list(reader) == [
        UnknownEvent(name="draft_dreamt", seq=1, fields={"event": "draft_dreamt", "seq": 1, "of": "sheep"}),
        RankingApplied(seq=2, actor="decoder", order=("a",)),
        UnknownEvent(
            name="ranking_applied",
            seq=3,
            fields={"event": "ranking_applied", "seq": 3, "actor": "decoder", "order": "changed its type"},
        ),
    ]
    assert (reader.skipped, reader.unknown) == (0, 2)
    assert reader.first_unknown is not None and reader.first_unknown.startswith(f"{path}:1: draft_dreamt: ")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[1])
    assert list(reader) and reader.first_unknown is None


def test_rotated_files_are_read_oldest_first(tmp_path: Path) -> None:
    """With more than nine files an order by name would put .10 before .2."""
    log = EventLog.open(tmp_path / "log[1].jsonl", rotate_bytes=10)
    for interval in range(12):
        log.write(ranking(interval))
    log.close()
    (tmp_path / "log[1].jsonl.bak").write_bytes(b"no part of the log\n")
    reader = read(tmp_path / "log[1].jsonl")
    places = [(event.interval, reader.file.name, reader.line) for event in reader if isinstance(event, RankingApplied)]
    assert [interval for interval, _, _ in places] == list(range(12))
    assert (places[0][1], places[-1][1]) == ("log[1].jsonl.11", "log[1].jsonl")
    assert reader.skipped == 0


def test_rotation_while_a_log_is_read_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """The summary of a log that is being written would count some records twice and others not at all."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=500)
    for interval in range(20):
        log.write(ranking(interval))
    seen: list[int] = []
    for event in read(tmp_path / "log"):
        assert isinstance(event, RankingApplied) and event.interval is not None
        seen.append(event.interval)
        if len(seen) < 20:
            log.write(ranking(19 + len(seen)))
    assert seen[:20] == list(range(20)) and seen == sorted(set(seen))


@pytest.mark.parametrize("moment", range(24))
def test_rotation_while_the_files_are_looked_for_loses_and_repeats_nothing(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks at names every file gets the name of another."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=10)
    for interval in range(4):
        log.write(ranking(interval))
    moments, look = count(), log_files._inode

    def look_beside_a_writer(path: Path) -> int | None:
        if next(moments) == moment:
            log.write(ranking(4))
        return look(path)

    monkeypatch.setattr(log_files, "_inode", look_beside_a_writer)
    seen = [event.interval for event in read(tmp_path / "log") if isinstance(event, RankingApplied)]
    assert seen[:4] == list(range(4)) and seen[4:] in ([], [4])


def test_place_of_a_record_is_known(tmp_path: Path) -> None:
    """A complaint about a record must be able to name its line, torn lines counted."""
    path = tmp_path / "log"
    write(path, ranking(1))
    with path.open("ab") as file:
        file.write(b"torn")
    write(path, ranking(2))
    reader = read(path)
    assert [reader.line for _ in reader] == [1, 3]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=str(tmp_path / "log")):
        list(read(tmp_path / "log"))


def compressed_log(path: Path, compress: Callable[[bytes], bytes]) -> Path:
    plain = path.with_name("plain")
    write(plain, *(ranking(interval) for interval in range(50)))
    path.write_bytes(compress(plain.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("name", "compress"), [("log.gz", gzip.compress), ("log.zst", lambda data: zstandard.compress(data))]
)
def test_compressed_log_is_read(tmp_path: Path, name: str, compress: Callable[[bytes], bytes]) -> None:
    """Logs are kept compressed; nobody unpacks them first."""
    reader = read(compressed_log(tmp_path / name, compress))
    assert [event.interval for event in reader if isinstance(event, RankingApplied)] == list(range(50))
    assert reader.skipped == 0


@pytest.mark.parametrize(
    ("name", "compress"), [("log.gz", gzip.compress), ("log.zst", lambda data: zstandard.compress(data))]
)
def test_compressed_log_that_was_cut_off_gives_what_it_has(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    path = compressed_log(tmp_path / name, compress)
    path.write_bytes(path.read_bytes()[:-4])
    reader = read(path)
    intervals = [event.interval for event in reader if isinstance(event, RankingApplied)]
    assert intervals == list(range(len(intervals)))
    assert len(intervals) < 50 or name == "log.gz"  # gzip's last bytes are a checksum


@pytest.mark.parametrize("name", ["log.gz", "log.zst"])
def test_file_that_is_not_compressed_after_all_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"plain text\n" * 100)
    with pytest.raises(UsageError, match=str(tmp_path / name)):
        list(read(tmp_path / name))


def test_rotated_files_that_were_compressed_keep_their_place(tmp_path: Path) -> None:
    """Whoever compresses old files must not lose them to the next rotation, nor their order."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=10)
    for interval in range(6):
        log.write(ranking(interval))
        if interval in (2, 4):
            rotated = tmp_path / "log.1"
            rotated.with_name("log.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
            rotated.unlink()
    log.close()
    assert [event.interval for event in read(tmp_path / "log") if isinstance(event, RankingApplied)] == list(range(6))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_file_whose_compression_was_cut_off_is_read_once(tmp_path: Path, share: float) -> None:
    """What was there plain and compressed would count twice in every figure, or end in a complaint."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=10)
    for interval in range(4):
        log.write(ranking(interval))
        if interval == 2:
            compressed = gzip.compress((tmp_path / "log.1").read_bytes())
            (tmp_path / "log.1.gz").write_bytes(compressed[: int(share * len(compressed))])
    log.close()
    reader = read(tmp_path / "log")
    assert [event.interval for event in reader if isinstance(event, RankingApplied)] == list(range(4))
    assert reader.skipped == 0


def test_log_without_records_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    """A summary of the wrong file would be all zeros."""
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n")
    with pytest.raises(UsageError, match=r"notes\.txt holds no event record \(2 other lines\)"):
        list(EventReader(path, must_hold_records=True))


def test_records_become_flat_rows() -> None:
    failed = events.DraftLoadFailed(
        actor="cache_manager", draft=ResidentDraft("code", 2), error="gone", retry_in_s=1.0, reserved_bytes=0
    )
    dreamt = UnknownEvent(
        name="draft_dreamt", seq=3, fields={"event": "draft_dreamt", "of": {"what": {"kind": "sheep"}}}
    )
    row, unknown = to_records([failed, dreamt])
    assert (row["event"], row["draft.name"], row["draft.generation"]) == ("draft_load_failed", "code", 2)
    assert not any(isinstance(value, dict) for value in row.values())
    assert unknown == {"event": "draft_dreamt", "of.what.kind": "sheep"}
