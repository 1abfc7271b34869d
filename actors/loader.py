"""The Loader: read draft weights from storage into their places in the arena, one load at a time."""

import asyncio
import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import assert_never

from memspec_actors.errors import LoadError, MemSpecError
from memspec_actors.models.arena import WeightArena
from memspec_actors.models.loading import LoadReport, Throttle, load_into
from memspec_actors.models.plan import LoadPlan
from memspec_actors.models.session import BoundDraft
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
from memspec_actors.runtime import Actor, ActorRef, Workers

__all__ = ["Loader"]


class Loader(Actor[LoaderMessage]):
    """Own the way from storage to the arena; every LoadDraft ends in exactly one finished, failed or cancelled.

    A finished load puts its runner into ``runners``; a ReleaseDraft takes it out again.
    """

    def __init__(
        self,
        *,
        plans: Mapping[str, LoadPlan],
        num_common: Mapping[str, int],
        arena: WeightArena,
        runners: MutableMapping[ResidentDraft, BoundDraft],
        cache_manager: ActorRef[CacheManagerMessage],
        workers: Workers,
        throttle: Throttle | None,
    ) -> None:
        self._plans = plans
        self._num_common = num_common
        self._arena = arena
        self._runners = runners
        self._cache_manager = cache_manager
        self._workers = workers
        self._throttle = throttle
        self._running: dict[ResidentDraft, threading.Event] = {}

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
        report = await self._workers.run(
            self._read_blocking, message, self._running[message.draft], self._reporter(message.draft)
        )
        if report.cancelled:
            return LoadCancelled(draft=message.draft)
        return LoadFinished(
            draft=message.draft, nbytes=report.nbytes, wall_us=report.wall_s * 1e6, emulated=report.emulated
        )

    def _read_blocking(
        self, message: LoadDraft, cancelled: threading.Event, progress: Callable[[int, int], None]
    ) -> LoadReport:
        draft, (placement,) = message.draft, message.placements  # a draft is one artefact
        plan = self._plans[draft.name]
        view = self._arena.view(placement.offset, placement.nbytes)
        try:
            report = load_into(plan, view, cancelled=cancelled.is_set, progress=progress, throttle=self._throttle)
        except (OSError, MemoryError) as error:
            raise LoadError(f"draft {draft.name!r} could not be read from {plan.path}: {error}") from error
        if not report.cancelled:
            self._runners[draft] = BoundDraft(draft, plan.bind(view), self._num_common[draft.name])
        return report

    def _reporter(self, draft: ResidentDraft) -> Callable[[int, int], None]:
        """Return a function for the worker thread that tells the CacheManager how far a load is."""
        loop = asyncio.get_running_loop()

        def report(done: int, total: int) -> None:
            progress = LoadProgress(draft=draft, done_bytes=done, total_bytes=total)
            loop.call_soon_threadsafe(self._cache_manager.tell, progress)

        return report
