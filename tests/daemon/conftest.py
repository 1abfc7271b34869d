"""One real daemon on the embedded models, for all tests that only talk to it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import openai
import pytest

StartDaemon = Callable[..., AbstractContextManager[tuple[str, subprocess.Popen[str]]]]


@contextmanager
def running_daemon(*options: str, wait: bool = True) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``memspec serve`` on a free port and (``wait``) until its models are loaded; give its address and process."""
    start = "import sys; from memspec_actors.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "serve", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            told = process.stderr.readline()
            assert "serving memspec-zoo on" in told, told
            assert not wait or process.stderr.readline() == "memspec: ready\n"
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
