"""One real daemon on the embedded models, for all tests that only talk to it."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import openai
import pytest

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).with_name("toy_daemon.py")
PATIENCE_S = 60


class RunningDaemon:
    """A daemon at work; what it tells on standard error is read as it comes, or a full pipe would stop it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.address = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self.reader.start()

    def line(self) -> str:
        """Return the next line that it tells, or nothing at the end."""
        return self._lines.get(timeout=PATIENCE_S)

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was told that nobody has read."""
        code = self.process.wait(timeout=PATIENCE_S)
        return code, "".join(iter(self.line, ""))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")


StartDaemon = Callable[..., AbstractContextManager[RunningDaemon]]


@contextmanager
def running_daemon(*options: str, toy: str = "") -> Iterator[RunningDaemon]:
    """Run ``memspec serve`` on a free port until its models are loaded.

    ``toy`` runs it with an engine that starts in no time and behaves as toy_daemon.py says.
    """
    start = [str(TOY)] if toy else ["-c", "import sys; from memspec_actors.cli import main; sys.exit(main())"]
    command = [sys.executable, *start, "serve", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOY": toy}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        running = RunningDaemon(process)
        try:
            told = running.line()
            assert "serving memspec-zoo on" in told, told
            running.address = told.split(" on ")[1].split(",")[0]
            assert toy == "loading" or running.line() == "memspec: ready\n"
            yield running
        finally:
            process.kill()
            running.reader.join()


@pytest.fixture(scope="session")
def start_daemon() -> StartDaemon:
    """Give the function that runs a daemon of one's own, with more options."""
    return running_daemon


@pytest.fixture(scope="session")
def daemon() -> Iterator[str]:
    """Give the address of a running daemon."""
    with running_daemon() as running:
        yield running.address


@pytest.fixture
def client(daemon: str) -> Iterator[openai.OpenAI]:
    """Give OpenAI's own client, talking to the daemon; it does not try again what fails."""
    with openai.OpenAI(base_url=f"{daemon}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
