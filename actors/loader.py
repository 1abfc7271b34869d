"""The Loader: read draft weights from storage into their places in the arena, one load at a time."""

import asyncio
import math
import threading
from collections.abc import MutableMapping
from typing import assert_never

from memspec_actors.errors import MemSpecError
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.drafting.reader import DraftReader
from memspec_actors.models.weights.loading import ByteProgress
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    CancelLoad,
    LoadCancelled,
    LoadDraft,
    LoaderMessage,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    ReleaseDraft,
    ResidentDraft,
)
from memspec_actors.runtime import Actor, ActorRef, Mailbox, Workers

__all__ = ["Loader"]

PROGRESS_EVERY_S = 0.05


class Loader(Actor[LoaderMessage]):
    """Own the way from storage to the arena; every LoadDraft ends in exactly one finished, failed or cancelled.

    A finished load puts its runner into ``runners``; a ReleaseDraft takes it out again.
    """

    def __init__(
        self,
        *,
        reader: DraftReader,
        runners: MutableMapping[ResidentDraft, BoundDraft],
        cache_manager: ActorRef[CacheManagerMessage],
        workers: Workers,
    ) -> None:
        self._reader = reader
        self._runners = runners
        self._cache_manager = cache_manager
        self._workers = workers
        self._running: dict[ResidentDraft, threading.Event] = {}

    async def run(self, inbox: Mailbox[LoaderMessage]) -> None:
        try:
            await super().run(inbox)
        finally:  # a load's thread is waited for: slow storage must not hold up the end
            for cancelled in self._running.values():
                cancelled.set()

    async def receive(self, message: LoaderMessage) -> None:
        match message:
            case LoadDraft():
                self._running[message.draft] = threading.Event()
                self.tasks.start_soon(self._load, message)
            case CancelLoad(draft=draft):
                if draft in self._running:
                    self._running[draft].set()
            case ReleaseDraft(draft=draft):
                self._runners.pop(draft, None)
            case _:
                assert_never(message)

    async def stopped(self) -> None:
        """Tell the outcome of loads that never began."""
        for draft in self._running:
            self._cache_manager.tell(LoadFailed(draft=draft, error="the Loader stopped"))

    async def _load(self, message: LoadDraft) -> None:
        """Run one load; whatever happens, even the actor's own end, exactly one outcome is told."""
        draft = message.draft
        outcome: LoadFinished | LoadFailed | LoadCancelled = LoadFailed(draft=draft, error="the Loader stopped")
        try:
            outcome = await self._read(message)
        except MemSpecError as error:
            outcome = LoadFailed(draft=draft, error=str(error))
        finally:
            del self._running[draft]
            if not isinstance(outcome, LoadFinished):
                self._runners.pop(draft, None)
            self._cache_manager.tell(outcome)

    async def _read(self, message: LoadDraft) -> LoadFinished | LoadCancelled:
        draft = message.draft
        cancelled = self._running[draft].is_set
        report, runner, num_common = await self._workers.run(
            self._reader.read, draft.name, message.placements, cancelled, self._progress_of(draft)
        )
        if runner is None:
            return LoadCancelled(draft=draft)
        self._runners[draft] = BoundDraft(draft, runner, num_common)
        return LoadFinished(draft=draft, nbytes=report.nbytes, wall_us=report.wall_s * 1e6, emulated=report.emulated)

    def _progress_of(self, draft: ResidentDraft) -> ByteProgress:
        """Return a function for the worker thread that tells the CacheManager how far a load is, now and then.

        Every word of it wakes the loop's thread, which takes Python's lock from decoding.
        """
        loop = asyncio.get_running_loop()
        told_at = -math.inf

        def progress(done: int, total: int) -> None:
            nonlocal told_at
            now = loop.time()
            if done < total and now - told_at < PROGRESS_EVERY_S:
                return
            told_at = now
            message = LoadProgress(draft=draft, done_bytes=done, total_bytes=total)
            loop.call_soon_threadsafe(self._cache_manager.tell, message)

        return progress
