"""Ctrl-C: the first ends a generation in good order, the second ends the process."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memspec_actors.cli import generation

# An engine that goes on until it is cancelled, or for ever; it tells on standard error how far it is.
ENGINE = """
import asyncio, sys, types
from contextlib import asynccontextmanager
from memspec_actors.protocols.results import TextChunk

WHEN = sys.argv.pop(1)

def say(what):
    print(what, file=sys.stderr, flush=True)

class Stream:
    def __init__(self):
        self.result = {"finish_reason": "cancelled"}
        self.cancelled = asyncio.Event()
    async def __aiter__(self):
        chunk = TextChunk(text="text so far", token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0)
        yield chunk
        say("streaming")
        await self.cancelled.wait()
    def cancel(self):
        if WHEN == "streaming":
            self.cancelled.set()
        say("draining")

class Engine:
    @asynccontextmanager
    async def open(self, config, *, on_load):
        try:
            if WHEN == "loading":
                say("loading")
                await asyncio.Event().wait()
            yield self
        finally:
            say("closed")
    def stream(self, prompt, **options):
        return Stream()

sys.modules["memspec_actors.engine"] = types.ModuleType("memspec_actors.engine")
sys.modules["memspec_actors.engine"].MemSpec = Engine()
import memspec_actors.cli.generation as generation
from memspec_actors.cli import main
generation.DRAIN_S = 0.0 if WHEN == "deadline" else 3600.0
sys.exit(main())
"""


@contextmanager
def interrupted(when: str, *options: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a generation and send it a SIGINT when it is where it should be."""
    command = [sys.executable, "-c", ENGINE, when, "run", "hello", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() in ("streaming\n", "loading\n")
            process.send_signal(signal.SIGINT)
            yield process
        finally:
            process.kill()


def test_first_interrupt_drains() -> None:
    """The text so far must stay, and the engine must be closed, not torn down: its log ends in a whole record."""
    with interrupted("streaming") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "text so far\n", "draining\nclosed\n")


def test_interrupted_json_is_still_one_object() -> None:
    with interrupted("streaming", "--json") as process:
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, '{"finish_reason":"cancelled"}\n')


@pytest.mark.parametrize("when", ["loading", "deadline"])
def test_interrupt_ends_what_does_not_drain(when: str) -> None:
    """While models load there is nothing to drain; and a generation that hangs must not hold the terminal."""
    with interrupted(when) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("closed\n")


def test_second_interrupt_kills() -> None:
    with interrupted("stuck") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "draining\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == "text so far\n"
    assert "Traceback" not in err


def test_an_interrupt_before_anything_has_begun_is_no_error_either() -> None:
    """Whoever notices a mistyped command at once would be shown a traceback of what was being imported."""
    code = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from memspec_actors.cli import main
sys.exit(main(["--version"]))
"""
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", "")


def test_loop_hears_of_the_second_interrupt() -> None:
    """One that comes just as the loop falls asleep would be noticed when something else wakes it."""

    async def scenario() -> tuple[int, object]:
        first = asyncio.Event()
        with generation._on_first_interrupt(first.set):
            os.kill(os.getpid(), signal.SIGINT)
            await first.wait()
            wakeup_fd = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(wakeup_fd)
            return wakeup_fd, signal.getsignal(signal.SIGINT)

    wakeup_fd, handler = asyncio.run(scenario())
    assert wakeup_fd != -1
    assert handler is signal.default_int_handler
