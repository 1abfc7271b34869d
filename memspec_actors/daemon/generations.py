"""Admit generations: a bounded number at a time, each with a deadline; the engine serves them first in, first out."""

import asyncio
from collections.abc import AsyncGenerator

from memspec_actors.config import ServeConfig
from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.errors import EngineClosed
from memspec_actors.protocols.results import GenerationResult, TextChunk
from memspec_actors.stream import TextStream

__all__ = ["Generation", "Generations"]


class Generations:
    """Know the generations that the engine has not ended, running and waiting."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.draining = False
        self._open: set[TextStream] = set()

    @property
    def num_open(self) -> int:
        """Number of requests that the engine serves or will serve; one that nobody reads any more is none of them."""
        return sum(not stream.ended for stream in self._open)

    def admit(self) -> None:
        """Raise Refusal if there is no place in the queue, or none is given any more."""
        if self.draining:
            raise Refusal(503, "the daemon is stopping; try again later", code="stopping")
        if self.num_open > self.config.queue:
            raise Refusal(429, f"{self.config.queue} requests are waiting; try again later", code="queue_full")

    def open(self, stream: TextStream) -> "Generation":
        """Take a stream in; whoever iterates over the generation must close the iteration."""
        self.admit()
        self._open.add(stream)
        return Generation(stream, self)

    def forget(self, stream: TextStream) -> None:
        self._open.discard(stream)

    def cancel_all(self) -> None:
        """End what still runs: its callers are told that the daemon stops."""
        for stream in list(self._open):
            stream.cancel()


class Generation:
    """One admitted request: its first chunk within ``queue_timeout_s``, all of it within ``request_timeout_s``."""

    def __init__(self, stream: TextStream, generations: Generations) -> None:
        self.stream = stream
        self._generations = generations

    @property
    def result(self) -> GenerationResult:
        """The result, once the chunks are exhausted. Raises EngineClosed if the text was cut short by the end."""
        if self.stream.result.finish_reason == "cancelled":
            raise EngineClosed("the daemon stopped before the text was finished")
        return self.stream.result

    async def chunks(self) -> AsyncGenerator[TextChunk, None]:
        """Yield the chunks. Raises Refusal when a deadline has passed, and what the engine raises."""
        config, loop = self._generations.config, asyncio.get_running_loop()
        began, is_first = loop.time(), True
        deadline = loop.call_at(began + config.queue_timeout_s, self._refuse_to_wait)
        chunks = aiter(self.stream)
        try:
            async for chunk in chunks:
                if is_first:
                    deadline.cancel()
                    deadline, is_first = loop.call_at(began + config.request_timeout_s, self._refuse_to_go_on), False
                yield chunk
        finally:
            deadline.cancel()
            self._generations.forget(self.stream)
            await chunks.aclose()

    def _refuse_to_wait(self) -> None:
        waited_s = self._generations.config.queue_timeout_s
        message = f"the request waited {waited_s:g} s for its turn; try again later"
        self.stream.break_off(Refusal(503, message, code="queue_timeout"))

    def _refuse_to_go_on(self) -> None:
        took_s = self._generations.config.request_timeout_s
        message = f"the request took longer than {took_s:g} s; ask for fewer tokens"
        self.stream.break_off(Refusal(504, message, code="request_timeout"))
