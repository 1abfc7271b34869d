"""One generation from the command line: load, stream, and end in good order on an interrupt."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import anyio

from memspec_actors.cli.display import Display, choose_display
from memspec_actors.cli.output import spinner
from memspec_actors.config import Config
from memspec_actors.engine import MemSpec
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.stream import TextStream

__all__ = ["generate"]

DRAIN_S = 3.0  # an interrupted generation has this long to end by itself


def generate(
    config: Config, prompt: str, *, max_new_tokens: int, sampling: SamplingParams, raw: bool, json: bool
) -> bool:
    """Generate text, showing it as it comes; return False if an interrupt cut it short."""
    return anyio.run(_generate, config, choose_display(json=json), prompt, max_new_tokens, sampling, raw)


async def _generate(
    config: Config, display: Display, prompt: str, max_new_tokens: int, sampling: SamplingParams, raw: bool
) -> bool:
    interruptible = _Interruptible()
    with _on_first_interrupt(interruptible.drain), interruptible.scope:
        async with AsyncExitStack() as stack:
            with spinner("loading models"):
                engine = await stack.enter_async_context(MemSpec.open(config, on_load=display.loading))
            stream = engine.stream(prompt, max_new_tokens=max_new_tokens, sampling=sampling, raw=raw)
            interruptible.stream = stream
            with display:
                async for chunk in stream:
                    display.chunk(chunk)
            display.finish(stream.result)
    return not interruptible.interrupted


class _Interruptible:
    """What an interrupt ends: the stream, in good order and by a deadline, or what comes before it, at once."""

    def __init__(self) -> None:
        self.interrupted = False
        self.scope = anyio.CancelScope()
        self.stream: TextStream | None = None

    def drain(self) -> None:
        if self.interrupted:
            return
        self.interrupted = True
        if self.stream is None:
            self.scope.cancel()
        else:
            self.stream.cancel()
            self.scope.deadline = anyio.current_time() + DRAIN_S


@contextmanager
def _on_first_interrupt(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        # The next one raises KeyboardInterrupt. The loop goes on listening, or it could fall asleep just as that comes.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        call()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
