"""The daemon as a process: sockets, signals, callers that go away."""

import json
import re
import resource
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memspec_actors.cli import main
from memspec_actors.daemon.http.connection import HEAD_TIMEOUT_S
from memspec_actors.protocols.events import SystemStopped
from memspec_actors.telemetry.reader import read_events

LONG: dict[str, Any] = {
    "model": "memspec-zoo", "prompt": [5, 6, 7], "max_tokens": 400, "ignore_eos": True, "temperature": 0,
    "stream": True,
}  # fmt: skip


def data_lines(reply: httpx2.Response) -> Any:
    return (line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: "))


def follow(address: str) -> Iterator[dict[str, Any]]:
    """Yield the daemon's events from its start on."""
    with httpx2.stream("GET", f"{address}/events", headers={"Last-Event-ID": "0"}, timeout=60) as reply:
        for data in data_lines(reply):
            yield json.loads(data)


def events_of(address: str, request_id: str) -> list[dict[str, Any]]:
    """Return a request's events, once it has finished."""
    found = []
    for event in follow(address):
        if event["request_id"] == request_id:
            found.append(event)
            if event["event"] == "request_finished":
                break
    return found


def test_a_client_that_goes_away_ends_its_generation(daemon: str) -> None:
    """It would be decoded to its end, for nobody, while others wait."""
    with httpx2.stream("POST", f"{daemon}/v1/completions", json=LONG, timeout=60) as reply:
        first = json.loads(next(data_lines(reply)))
    finished = events_of(daemon, first["id"].removeprefix("cmpl-"))[-1]
    assert finished["finish_reason"] == "cancelled"
    assert finished["usage"]["completion_tokens"] < LONG["max_tokens"]


def test_a_client_that_goes_away_while_it_waits_is_never_decoded(daemon: str) -> None:
    with httpx2.stream("POST", f"{daemon}/v1/completions", json=LONG, timeout=60) as running:
        lines = data_lines(running)
        mine = json.loads(next(lines))["id"].removeprefix("cmpl-")
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{daemon}/v1/completions", json={**LONG, "stream": False}, timeout=0.2)
        accepted = (event["request_id"] for event in follow(daemon) if event["event"] == "request_accepted")
        assert mine in accepted
        waited = events_of(daemon, next(accepted))
    assert [event["event"] for event in waited] == ["request_accepted", "request_finished"]
    assert waited[-1]["finish_reason"] == "cancelled"


def test_a_stop_lets_running_requests_end_and_the_log_is_whole(start_daemon: Any, tmp_path: Path) -> None:
    """A deployment would cut answers short, or leave a torn log."""
    log, config = tmp_path / "events.jsonl", tmp_path / "memspec.toml"
    config.write_text("[events]\npath = 'events.jsonl'\n[serve]\ndrain_timeout_s = 60.0\n")
    with start_daemon("--config", str(config)) as running, httpx2.Client(timeout=60) as client:
        with (
            client.stream("GET", f"{running.address}/events") as events,
            client.stream("POST", f"{running.address}/v1/completions", json={**LONG, "max_tokens": 60}) as reply,
        ):
            lines = data_lines(reply)
            next(lines)
            running.process.send_signal(signal.SIGTERM)
            *_, closing, done = lines
            assert done == "[DONE]"
            assert json.loads(closing)["choices"][0]["finish_reason"] == "length"
            for _ in events.iter_lines():
                pass  # whoever only looks on is let go
        assert running.ended() == (0, "")
    *_, last = read_events(log)
    assert isinstance(last, SystemStopped)
    assert log.read_bytes().endswith(b"}\n")


def test_what_does_not_end_in_time_is_told_so(start_daemon: Any, tmp_path: Path) -> None:
    """A text that was cut short would look finished."""
    config = tmp_path / "memspec.toml"
    config.write_text("[serve]\ndrain_timeout_s = 0.01\n")
    with start_daemon("--config", str(config), toy="ticking") as running:
        with httpx2.stream("POST", f"{running.address}/v1/completions", json=LONG, timeout=60) as reply:
            lines = data_lines(reply)
            next(lines)
            running.process.send_signal(signal.SIGINT)
            *_, last = lines
        assert json.loads(last)["error"]["code"] == "stopping"
        assert running.ended() == (130, "")


def test_a_stop_lets_go_of_a_request_that_does_not_come(start_daemon: Any, tmp_path: Path) -> None:
    """Whoever stops in the middle of a body would have the daemon end with a traceback."""
    config = tmp_path / "memspec.toml"
    config.write_text("[serve]\ndrain_timeout_s = 0.01\n")
    with start_daemon("--config", str(config), toy="ticking") as running:
        host, port = running.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            head = (
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
            )
            client.sendall(head)
            assert client.recv(100).startswith(b"HTTP/1.1 100 "), "the body is awaited"
            running.process.send_signal(signal.SIGTERM)
            assert running.ended() == (0, "")


def test_a_second_signal_ends_at_once(start_daemon: Any) -> None:
    with (
        start_daemon(toy="ticking") as running,
        httpx2.stream("POST", f"{running.address}/v1/completions", json=LONG, timeout=60) as reply,
    ):
        lines = data_lines(reply)
        next(lines)
        running.process.send_signal(signal.SIGTERM)
        running.process.send_signal(signal.SIGINT)
        code, _ = running.ended()
    assert code in (128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_a_stop_while_models_load_ends_it(start_daemon: Any) -> None:
    with start_daemon(toy="loading") as running:
        assert httpx2.get(f"{running.address}/health").json() == {"status": "loading"}
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == (0, "")


def test_silent_connections_leave_room_for_others(start_daemon: Any) -> None:
    """A few hundred of them, and the daemon would accept no other."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))  # as a shell gives 1024
        try:
            running = opened.enter_context(start_daemon(toy="ticking"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        host, port = running.address.removeprefix("http://").split(":")
        for _ in range(100):
            opened.enter_context(socket.create_connection((host, int(port)), timeout=60))
        reply = httpx2.get(f"{running.address}/health", timeout=HEAD_TIMEOUT_S / 2)  # before they are hung up on
        assert reply.json() == {"status": "ok"}


@pytest.mark.parametrize(
    "head", [b"\x16\x03\x01", b"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: close, upgrade"]
)
def test_what_is_not_spoken_here_is_not_written_about(start_daemon: Any, head: bytes) -> None:
    """Anybody could fill the disk, or a pipe that nobody reads, and so stop the daemon."""
    with start_daemon(toy="ticking") as running:
        host, port = running.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(head + b"\r\n\r\n")
            assert client.makefile("rb").read().startswith(b"HTTP/1.1 ")
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == (0, "")


def test_an_engine_that_dies_ends_the_daemon(start_daemon: Any) -> None:
    """A supervisor could not tell that it has to start the daemon again."""
    with start_daemon(toy="failing") as running:
        reply = httpx2.post(f"{running.address}/v1/completions", json=LONG, timeout=60)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "engine_failed")
        assert running.ended() == (1, "memspec: error: actor 'decoder' crashed 6 times\n")


def test_a_unix_socket_is_its_users_alone_and_goes_with_the_daemon(start_daemon: Any, tmp_path: Path) -> None:
    path = tmp_path / "memspec.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))  # as a killed daemon leaves it
    with start_daemon("--uds", str(path), toy="ticking") as running:
        assert running.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://anything/health").json() == {"status": "ok"}
        assert main(["serve", "--uds", str(path)]) == 2, "a socket in use is not taken over"
        running.process.send_signal(signal.SIGTERM)
        assert running.ended() == (0, "")
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "there is no api_key"),
        (["--port", "70000"], "[serve] port is 70000"),
        (["--host", "203.0.113.7", "--api-key", "k"], "cannot listen there"),
        (["--policy", "memspek", "--port", "0"], "unknown policy 'memspek'"),
    ],
)
def test_what_cannot_be_served_is_one_line(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert main(["serve", *options]) == 2
    told = capsys.readouterr().err.splitlines()
    assert said in told[-1]
    assert re.fullmatch(r"memspec: error: .*", told[-1])
