"""``memspec`` with an engine that loads nothing and writes "tick " until it is told to stop: it starts in no time.

TOY in the environment says how it behaves: `ticking`; `loading` never finishes that; `failing` dies of its first
request.
"""

import asyncio
import os
import sys
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from memspec_actors.errors import SystemFailed
from memspec_actors.protocols.results import (
    GenerationResult,
    Metrics,
    ResidencySnapshot,
    Scheduling,
    Share,
    SpeculativeMetrics,
    TextChunk,
    Timing,
    Usage,
)
from memspec_actors.stream import TextStream

TICK_S = 0.01
REQUEST = types.SimpleNamespace(request_id="toy")
FAILURE = SystemFailed("actor 'decoder' crashed 6 times")
CHUNK = TextChunk(text="tick ", token_ids=(1,), draft=None, resident=(), accepted=0, drafted=0)
RESULT = GenerationResult(
    request_id="toy", text="tick ", token_ids=(1,), finish_reason="cancelled", lossless=True,
    usage=Usage(prompt_tokens=1, completion_tokens=1, total_tokens=2),
    timing=Timing(queue_s=0, prefill_s=0, time_to_first_token_s=0, decode_s=0, total_s=0, tokens_per_second=0),
    metrics=Metrics(
        speculative_decoding=SpeculativeMetrics(
            mean_acceptance_length=0, draft_acceptance_rate=0, acceptance_histogram=(), num_spec_steps=0,
            num_accepted_draft_tokens=0, num_draft_tokens=0, num_spec_tokens=0,
        )
    ),
    scheduling=Scheduling(
        policy="toy", interval=1, capacity=1, switches=0, loads=0, evictions=0, wasted_loads=0, predictions=0,
        prediction_busy_share=0, emulated_storage=False, share=Share(), drafts={},
    ),
)  # fmt: skip
ARENA = ResidencySnapshot(
    epoch=0, resident=("toy",), loading=(), revoked=(), unavailable=(), active=None, capacity=1, budget_bytes=1,
    resident_bytes=1, reserved_bytes=0, loads=1, evictions=0,
)  # fmt: skip


class ToyEngine:
    """What the daemon needs of an engine; it serves its streams' submissions and cancellations itself."""

    context = 100
    drafts = {"toy": 1}  # noqa: RUF012

    def __init__(self) -> None:
        self._ticking: dict[Any, asyncio.Task[None]] = {}
        self._failed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, config: object, *, on_event: object) -> AsyncIterator["ToyEngine"]:
        if os.environ["TOY"] == "loading":
            await asyncio.Event().wait()
        yield cls()

    async def encode_aside(self, prompt: object, *, raw: bool) -> tuple[int, ...]:
        return (1,)

    def stream(self, prompt: object, **options: object) -> TextStream:
        myself: Any = self
        request: Any = REQUEST
        return TextStream(myself, request)

    def token_text(self, token_id: int) -> str:
        return "tick "

    def residency(self) -> ResidencySnapshot:
        return ARENA

    async def wait_failed(self) -> SystemFailed:
        await self._failed.wait()
        return FAILURE

    def submit(self, stream: TextStream) -> None:
        if os.environ["TOY"] == "failing":
            self._failed.set()
            stream.fail(FAILURE)
            return
        self._ticking[stream] = asyncio.create_task(self._tick(stream))

    def cancel(self, stream: TextStream) -> None:
        self._ticking[stream].cancel()
        stream.finish(RESULT)

    def leave(self, stream: TextStream) -> None:
        if stream in self._ticking:
            self._ticking[stream].cancel()

    async def _tick(self, stream: TextStream) -> None:
        while True:
            stream.chunk(CHUNK)
            await asyncio.sleep(TICK_S)


engine = types.ModuleType("memspec_actors.engine")
engine.MemSpec = ToyEngine  # type: ignore[attr-defined]
sys.modules["memspec_actors.engine"] = engine

if __name__ == "__main__":
    from memspec_actors.cli import main

    sys.exit(main())
