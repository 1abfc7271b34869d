"""The events of the engine as they happen, numbered, with the newest ones kept for those who come back."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from itertools import islice

import msgspec

from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.event_log import system_clock

__all__ = ["EventFeed"]

KEPT_EVENTS = 4096
MAX_BATCH = 128  # events: tens of kilobytes
COLLECT_S = 0.05  # an eye does not see so short a time, and an iteration of decoding takes a fraction of it


class EventFeed:
    """Number every event from 1, keep the newest, and wake whoever follows.

    The numbers are those of a complete event log of the same engine: nothing is left out.
    """

    def __init__(self, *, kept: int = KEPT_EVENTS, collect_s: float = COLLECT_S) -> None:
        self._kept: deque[bytes] = deque(maxlen=kept)
        self._newest = 0
        self._changed = asyncio.Event()
        self._closed = False
        self._collect_s = collect_s
        self._encode = msgspec.json.Encoder().encode

    @property
    def newest(self) -> int:
        """Number of the newest event."""
        return self._newest

    def add(self, event: Event) -> None:
        """Take an event in."""
        self._newest += 1
        ts, mono = system_clock()
        self._kept.append(self._encode(msgspec.structs.replace(event, seq=self._newest, ts=ts, mono=mono)))
        self._wake()

    def close(self) -> None:
        """End the following: no event comes any more."""
        self._closed = True
        self._wake()

    async def follow(self, after: int, idle_s: float) -> AsyncGenerator[tuple[tuple[int, bytes], ...], None]:
        """Yield (number, JSON) of every event after number ``after`` that is still kept, then the new ones.

        They come in batches, and new ones after a moment, so that looking on costs decoding little; when none has come
        for ``idle_s`` seconds, an empty batch does.

        A number that was never given out, as from an earlier run of the daemon, stands for the beginning. Whoever reads
        more slowly than events come misses those that are kept no longer; the numbers tell.
        """
        last = after if after <= self._newest else 0
        while True:
            changed = self._changed
            while batch := self._batch(last):
                last, _ = batch[-1]
                yield batch
                await asyncio.sleep(0)  # else a reader that has gone is noticed only after all that was kept
            if self._closed:
                return
            try:
                async with asyncio.timeout(idle_s):
                    await changed.wait()
            except TimeoutError:
                yield ()
            else:
                await asyncio.sleep(self._collect_s)

    def _batch(self, last: int) -> tuple[tuple[int, bytes], ...]:
        """Return the events after number ``last`` that are kept, as many as are sent at once."""
        oldest = self._newest - len(self._kept) + 1
        start = max(last + 1, oldest)
        return tuple(enumerate(islice(self._kept, start - oldest, start - oldest + MAX_BATCH), start))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
