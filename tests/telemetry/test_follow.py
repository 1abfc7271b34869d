"""Following a log: nothing is missed and nothing comes twice, whatever happens to the file or the connection."""

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count, islice
from pathlib import Path

import pytest
from zstandard import ZstdCompressor

from memspec_actors.errors import UsageError
from memspec_actors.protocols.events import RankingApplied
from memspec_actors.telemetry import EventLog, log_files
from memspec_actors.telemetry.follow import follow_file, follow_url
from memspec_actors.telemetry.reader import LineDecoder


def new_intervals(lines: Iterator[bytes | None]) -> list[int | None]:
    """Take the lines until there is nothing new."""
    decode = LineDecoder().decode
    return [
        event.interval for line in iter(lambda: next(lines), None) if isinstance(event := decode(line), RankingApplied)
    ]


def write(log: EventLog, *intervals: int) -> None:
    for interval in intervals:
        log.write(RankingApplied(actor="decoder", interval=interval, order=("code",)))


def test_what_is_written_later_comes_later(tmp_path: Path) -> None:
    log = EventLog.open(tmp_path / "log")
    write(log, 0, 1)
    lines = follow_file(tmp_path / "log")
    assert new_intervals(lines) == [0, 1]
    assert new_intervals(lines) == []
    write(log, 2)
    assert new_intervals(lines) == [2]


@pytest.mark.parametrize("rotate_bytes", [10, 500])
def test_rotation_loses_and_repeats_nothing(tmp_path: Path, rotate_bytes: int) -> None:
    """Several files may be begun and left between two looks."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=rotate_bytes)
    write(log, 0, 1, 2)
    lines = follow_file(tmp_path / "log")
    seen = new_intervals(lines)
    for begin in range(3, 59, 7):
        write(log, *range(begin, begin + 7))
        for _ in range(8):  # one file after the other
            seen += new_intervals(lines)
    assert seen == list(range(59))


@pytest.mark.parametrize("pack", [None, gzip.compress, ZstdCompressor().compress])
def test_rotation_while_older_files_are_read_loses_and_repeats_nothing(
    tmp_path: Path, pack: Callable[[bytes], bytes] | None
) -> None:
    """Who begins to follow a log with a long past is still reading it when the next file is begun."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=500)
    write(log, *range(20))
    if pack is not None:
        oldest = log_files.log_files(tmp_path / "log")[0]
        suffix = ".gz" if pack is gzip.compress else ".zst"
        oldest.with_name(oldest.name + suffix).write_bytes(pack(oldest.read_bytes()))
        oldest.unlink()
    lines, seen = follow_file(tmp_path / "log"), 0
    for written in range(20, 60, 2):
        for _ in range(3):  # three lines are read while two are written
            seen += next(lines) is not None
        write(log, written, written + 1)
    rest = [each for _ in range(10) for each in new_intervals(lines)]
    assert rest == list(range(seen, 60))


@pytest.mark.parametrize("moment", range(20))
def test_rotation_while_the_next_file_is_looked_for_loses_and_repeats_nothing(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks at names every file gets the name of another; and the newest may just have none."""
    log = EventLog.open(tmp_path / "log", rotate_bytes=10)
    write(log, 0, 1)
    moments, look = count(), log_files._inode

    def look_beside_a_writer(path: Path) -> int | None:
        inode = look(path)
        if next(moments) == moment:
            write(log, 2, 3)
        return inode

    monkeypatch.setattr(log_files, "_inode", look_beside_a_writer)
    lines = follow_file(tmp_path / "log")
    assert [each for _ in range(6) for each in new_intervals(lines)] == [0, 1, 2, 3]


def test_what_comes_through_a_pipe_is_given_once(tmp_path: Path) -> None:
    """``memspec events tail <(ssh device cat run.jsonl)`` would be refused."""
    write(EventLog.open(tmp_path / "log"), 0, 1)
    reading, writing = os.pipe()
    os.write(writing, (tmp_path / "log").read_bytes())
    os.close(writing)
    lines = follow_file(Path(f"/dev/fd/{reading}"))
    assert [new_intervals(lines), new_intervals(lines)] == [[0, 1], []]
    os.close(reading)


def test_line_is_given_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = EventLog.open(path)
    write(log, 0, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    lines = follow_file(path)
    assert new_intervals(lines) == [0]
    with path.open("ab") as file:
        file.write(whole[-20:])
    assert new_intervals(lines) == [1]


def test_file_that_was_emptied_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = EventLog.open(path)
    write(log, 0, 1, 2)
    lines = follow_file(path)
    assert new_intervals(lines) == [0, 1, 2]
    path.write_bytes(b"")
    write(log, 3)
    assert new_intervals(lines) == [3]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_compressed_log_is_given_as_far_as_it_goes(tmp_path: Path, suffix: str, share: float) -> None:
    """A log that was packed away would be refused, or end the command as Ctrl-C does."""
    write(EventLog.open(tmp_path / "log"), *range(50))
    plain = (tmp_path / "log").read_bytes()
    packed = gzip.compress(plain) if suffix == ".gz" else ZstdCompressor().compress(plain)
    path = tmp_path / f"packed{suffix}"
    path.write_bytes(packed[: int(len(packed) * share)])
    lines = follow_file(path)
    seen = new_intervals(lines)
    assert seen == list(range(50))[: len(seen)] and (share < 1 or len(seen) == 50)
    assert new_intervals(lines) == []


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        next(follow_file(tmp_path / "nowhere"))


KEY = "schlüssel"


class Daemon(BaseHTTPRequestHandler):
    """Send a few events to each caller, then hang up; refuse those without the key."""

    asked: list[str | None]
    num_events: int

    def do_GET(self) -> None:
        self.asked.append(self.headers["Last-Event-ID"])
        if self.headers["Authorization"].encode("latin-1").decode() != f"Bearer {KEY}":
            self.send_response(401, "Unauthorized")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        first = int(self.asked[-1] or 0) + 1
        self.wfile.write(b": still here\n\n")
        for number in range(first, first + self.num_events):
            self.wfile.write(b'id: %d\ndata: {"seq": %d}\n\n' % (number, number))

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its own name
        pass


@contextmanager
def daemon(num_events: int = 2) -> Iterator[tuple[str, list[str | None]]]:
    Daemon.asked, Daemon.num_events = [], num_events
    with HTTPServer(("127.0.0.1", 0), Daemon) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/events", Daemon.asked
        finally:
            server.shutdown()
            thread.join()


def test_lost_connection_goes_on_where_it_was() -> None:
    with daemon() as (url, asked):
        lines = follow_url(url, KEY)
        taken = list(islice(lines, 10))
        lines.close()  # type: ignore[attr-defined]
    assert [line for line in taken if line] == [b'{"seq": %d}' % number for number in range(1, 6)]
    assert asked[:3] == [None, "2", "4"]


def test_a_daemon_that_had_nothing_to_tell_is_waited_for_too() -> None:
    """Whoever follows an idle daemon would be told, when it is restarted, that it cannot be reached."""
    with daemon(num_events=0) as (url, _):
        lines = follow_url(url, KEY)
        assert list(islice(lines, 4)) == [None] * 4
    assert list(islice(lines, 2)) == [None, None]
    lines.close()  # type: ignore[attr-defined]


def test_refusal_is_told() -> None:
    with daemon() as (url, _), pytest.raises(UsageError, match="401 Unauthorized"):
        list(follow_url(url, "other"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/events", "http://[", "http://", "http://no..name"])
def test_address_where_nobody_answers_is_named(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        next(follow_url(url))
    assert url in str(caught.value)
