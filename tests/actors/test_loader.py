"""The Loader by itself, with a real thread that reads from storage so slow that it would never end."""

import threading
import time
from collections.abc import Sequence

import anyio

from memspec_actors.actors import Loader
from memspec_actors.models.drafting.reader import ReadDraft
from memspec_actors.models.weights.loading import ByteProgress, Cancelled, LoadReport
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    LoadCancelled,
    LoadDraft,
    LoaderMessage,
    LoadFailed,
    LoadProgress,
    Placement,
    ResidentDraft,
)
from memspec_actors.runtime import Actor, ActorRef, ActorSystem, Workers

DRAFTS = (ResidentDraft("a", 1), ResidentDraft("b", 1))
PATIENCE = 5_000  # polls of a millisecond
NUM_BYTES = 1000


class ToyReader:
    """Do some work in place of a read, which ends cancelled."""

    emulated = False

    def read(
        self, draft: str, placements: Sequence[Placement], cancelled: Cancelled, progress: ByteProgress
    ) -> ReadDraft:
        self.work(cancelled, progress)
        return ReadDraft(LoadReport(0, 0.0, self.emulated, True), None, 17)

    def work(self, cancelled: Cancelled, progress: ByteProgress) -> None:
        raise NotImplementedError


class EndlessReader(ToyReader):
    """Read until told to stop, as `load_into` does under a throttle."""

    emulated = True

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped_early = False

    def work(self, cancelled: Cancelled, progress: ByteProgress) -> None:
        self.begun.set()
        for _ in range(PATIENCE):
            if cancelled():
                self.stopped_early = True
                break
            time.sleep(0.001)


class TalkativeReader(ToyReader):
    """Tell of every byte, faster than anybody could look at."""

    def work(self, cancelled: Cancelled, progress: ByteProgress) -> None:
        for done in range(1, NUM_BYTES + 1):
            progress(done, NUM_BYTES)


class Listener(Actor[CacheManagerMessage]):
    """Stand where the CacheManager stands, and note what the Loader tells; ``ended`` says that a load was cancelled."""

    def __init__(self, heard: list[CacheManagerMessage], ended: anyio.Event) -> None:
        self._heard = heard
        self._ended = ended

    async def receive(self, message: CacheManagerMessage) -> None:
        self._heard.append(message)
        if isinstance(message, LoadCancelled):
            self._ended.set()


async def stop_while_loading() -> tuple[EndlessReader, list[CacheManagerMessage]]:
    reader, workers, system = EndlessReader(), Workers("load"), ActorSystem()
    heard: list[CacheManagerMessage] = []
    cache_manager: ActorRef[CacheManagerMessage] = system.spawn("cache_manager", lambda: Listener(heard, anyio.Event()))
    loader: ActorRef[LoaderMessage] = system.spawn(
        "loader", lambda: Loader(reader=reader, runners={}, cache_manager=cache_manager, workers=workers)
    )
    async with system:
        for draft in DRAFTS:
            loader.tell(LoadDraft(draft=draft, placements=(Placement(artefact=draft.name, offset=0, nbytes=64),)))
        await anyio.to_thread.run_sync(reader.begun.wait)
    workers.close()
    return reader, heard


def test_stopping_gives_up_the_load_that_runs() -> None:
    """Closing an engine, or Ctrl-C, would last as long as slow storage takes; both loads end in one outcome."""
    reader, heard = anyio.run(stop_while_loading)
    assert reader.stopped_early
    assert sorted(heard, key=str) == [LoadFailed(draft=draft, error="the Loader stopped") for draft in DRAFTS]


async def load_once() -> list[CacheManagerMessage]:
    workers, system = Workers("load"), ActorSystem()
    heard: list[CacheManagerMessage] = []
    ended = anyio.Event()
    cache_manager: ActorRef[CacheManagerMessage] = system.spawn("cache_manager", lambda: Listener(heard, ended))
    loader: ActorRef[LoaderMessage] = system.spawn(
        "loader", lambda: Loader(reader=TalkativeReader(), runners={}, cache_manager=cache_manager, workers=workers)
    )
    async with system:
        loader.tell(
            LoadDraft(draft=DRAFTS[0], placements=(Placement(artefact=DRAFTS[0].name, offset=0, nbytes=NUM_BYTES),))
        )
        await ended.wait()
    workers.close()
    return heard


def test_progress_is_told_now_and_then_and_at_the_end() -> None:
    """Telling of every tensor wakes the event loop so often that decoding slows down while drafts load."""
    told = [message.done_bytes for message in anyio.run(load_once) if isinstance(message, LoadProgress)]
    assert told[-1] == NUM_BYTES
    assert len(told) < NUM_BYTES / 10
