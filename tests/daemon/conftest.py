"""One real daemon on the embedded models, for all tests that only talk to it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import openai
import pytest

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).with_name("toy_daemon.py")
RunningDaemon = tuple[str, "subprocess.Popen[str]"]
StartDaemon = Callable[..., AbstractContextManager[RunningDaemon]]


@contextmanager
def running_daemon(*options: str, toy: str = "") -> Iterator[RunningDaemon]:
    """Run ``memspec serve`` on a free port until its models are loaded; give its address and process.

    ``toy`` runs it with an engine that starts in no time and behaves as toy_daemon.py says.
    """
    start = [str(TOY)] if toy else ["-c", "import sys; from memspec_actors.cli import main; sys.exit(main())"]
    command = [sys.executable, *start, "serve", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOY": toy}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            told = process.stderr.readline()
            assert "serving memspec-zoo on" in told, told
            assert toy == "loading" or process.stderr.readline() == "memspec: ready\n"
            yield told.split(" on ")[1].split(",")[0], process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def start_daemon() -> StartDaemon:
    """Give the function that runs a daemon of one's own, with more options."""
    return running_daemon


@pytest.fixture(scope="session")
def daemon() -> Iterator[str]:
    """Give the address of a running daemon."""
    with running_daemon() as (address, _):
        yield address


@pytest.fixture
def client(daemon: str) -> Iterator[openai.OpenAI]:
    """Give OpenAI's own client, talking to the daemon; it does not try again what fails."""
    with openai.OpenAI(base_url=f"{daemon}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
