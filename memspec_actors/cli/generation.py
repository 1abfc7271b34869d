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
    generation = _Generation(choose_display(json=json))
    anyio.run(generation.run, config, prompt, max_new_tokens, sampling, raw)
    return not generation.interrupted


class _Generation:
    """A generation that the first interrupt drains: what there is by then is its result. The second kills."""

    def __init__(self, display: Display) -> None:
        self.interrupted = False
        self._display = display
        self._scope = anyio.CancelScope()
        self._stream: TextStream | None = None

    async def run(self, config: Config, prompt: str, max_new_tokens: int, sampling: SamplingParams, raw: bool) -> None:
        with _on_first_interrupt(self._drain), self._scope:
            async with AsyncExitStack() as stack:
                with spinner("loading models"):
                    engine = await stack.enter_async_context(MemSpec.open(config, on_load=self._display.loading))
                self._stream = engine.stream(prompt, max_new_tokens=max_new_tokens, sampling=sampling, raw=raw)
                with self._display as display:
                    async for chunk in self._stream:
                        display.chunk(chunk)
                display.finish(self._stream.result)

    def _drain(self) -> None:
        self.interrupted = True
        if self._stream is None:
            self._scope.cancel()
        else:
            self._stream.cancel()
            self._scope.deadline = anyio.current_time() + DRAIN_S


@contextmanager
def _on_first_interrupt(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)  # the next one raises KeyboardInterrupt
        call()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
