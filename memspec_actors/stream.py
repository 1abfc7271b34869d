"""The caller's end of one generation: chunks as they come, then the result."""

import asyncio
from collections.abc import AsyncGenerator

import anyio

from memspec_actors.errors import EngineClosed, MailboxFull, Overloaded, UsageError
from memspec_actors.protocols.messages import Cancel, DecoderMessage, Generate
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import GenerationResult, TextChunk
from memspec_actors.runtime import ActorRef
from memspec_actors.runtime.held import Held

__all__ = ["MAX_OPEN_REQUESTS", "Requests", "TextStream"]

MAX_OPEN_REQUESTS = 1024  # running and waiting


class Requests:
    """Know the streams that are open, and speak to the Decoder for them: on ``loop``, where it lives, and no other."""

    def __init__(self, decoder: ActorRef[DecoderMessage], loop: asyncio.AbstractEventLoop) -> None:
        self._decoder = decoder
        self._loop = loop
        self._open: set[TextStream] = set()
        self._closed: Exception | None = None

    def check_open(self) -> None:
        """Raise why no request is taken any more, if that is so."""
        if self._closed is not None:
            raise self._closed

    def submit(self, stream: "TextStream") -> None:
        """Send the stream's request. Raises EngineClosed, Overloaded, or UsageError on another event loop."""
        self.check_open()
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError("the engine belongs to another event loop; use it where it was opened, or open another")
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise Overloaded(f"{MAX_OPEN_REQUESTS} requests are waiting; try again later")
        try:
            self._decoder.tell(Generate(request=stream.request, sink=stream, submitted_at=anyio.current_time()))
        except MailboxFull as error:
            raise Overloaded("too many requests are waiting; try again later") from error
        self._open.add(stream)

    def cancel(self, stream: "TextStream") -> None:
        """End the stream's request at the next iteration boundary, if it is running or waiting."""
        if stream in self._open and self._closed is None:
            self._decoder.tell(Cancel(request_id=stream.request.request_id))

    def leave(self, stream: "TextStream") -> None:
        """Forget a stream that nobody reads any more; a request still running is cancelled."""
        if not stream.ended:
            self.cancel(stream)
        self._open.discard(stream)

    def close(self, why: Exception | None = None) -> None:
        """Take no more requests, and fail those that are open."""
        if self._closed is None:
            self._closed = why or EngineClosed("the engine is closed; open a new one")
            for stream in self._open:
                stream.fail(self._closed)


class TextStream:
    """Iterate over the chunks of one generation; ``result`` is there once they are exhausted.

    The request is sent when iteration begins. Leaving the iteration early (break, cancellation, an error) cancels the
    request; `cancel` ends it in good order: what has come by then is its text, and its finish reason ``"cancelled"``.
    """

    def __init__(self, requests: "Requests", request: GenerationRequest) -> None:
        self.request = request
        self._requests = requests
        self._events: asyncio.Queue[TextChunk | GenerationResult | Exception] = asyncio.Queue()
        self._held: Held[TextChunk] = Held(self._events.put_nowait)
        self._begun = False
        self._cancelled = False
        self._ended = False
        self._result: GenerationResult | None = None

    @property
    def result(self) -> GenerationResult:
        """Return the result. Raises UsageError while the stream is not exhausted."""
        if self._result is None:
            raise UsageError("the stream has no result yet: iterate over it to its end first")
        return self._result

    async def __aiter__(self) -> AsyncGenerator[TextChunk, None]:
        """Yield chunks; the errors of the request are raised here. A stream can be iterated over once."""
        if self._begun:
            raise UsageError("the stream was iterated over already; ask the engine for a new one")
        self._begun = True
        self._requests.submit(self)
        if self._cancelled:
            self._requests.cancel(self)
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, TextChunk):
                    yield event
                    continue
                if isinstance(event, Exception):
                    raise event
                self._result = event
                return
        finally:
            self._requests.leave(self)

    def cancel(self) -> None:
        """Ask for the end of the text: the iteration goes on to it."""
        self._cancelled = True
        self._requests.cancel(self)

    def break_off(self, error: Exception) -> None:
        """Raise ``error`` in the iteration, after what has come by now: whoever iterates leaves early."""
        self._tell(error)

    @property
    def ended(self) -> bool:
        """Tell whether the request has ended, one way or another."""
        return self._ended

    # --- what the Decoder calls (protocols.messages.OutputSink) -------------------------------------------------------

    def chunk(self, chunk: TextChunk) -> None:
        self._held.add(chunk)

    def finish(self, result: GenerationResult) -> None:
        self._ended = True
        self._tell(result)

    def fail(self, error: Exception) -> None:
        self._ended = True
        self._tell(error)

    def _tell(self, end: GenerationResult | Exception) -> None:
        self._held.release()
        self._events.put_nowait(end)
