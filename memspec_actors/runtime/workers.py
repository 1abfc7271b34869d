"""A thread of one's own for work that would block the event loop."""

import asyncio
import atexit
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, TypeVarTuple

import anyio

__all__ = ["Workers", "outlast"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

JOIN_S = 10.0  # at the end of the process, for the functions that are running

_threads: "weakref.WeakKeyDictionary[threading.Thread, SimpleQueue[_Job[Any] | None]]" = weakref.WeakKeyDictionary()


class Workers:
    """Run functions one after the other on one dedicated, named thread, which calls ``on_start`` first of all.

    An error of ``on_start`` is raised to every caller, and nothing runs.

    The way there and back takes half as long as by an executor of the standard library, which keeps a future, a
    condition and a list of waiters for each call: decoding goes this way at every iteration.
    """

    def __init__(self, name: str, on_start: Callable[[], None] | None = None) -> None:
        self.name = name
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs, on_start), name=name, daemon=True)
        self._end = weakref.finalize(self, self._jobs.put, None)

    async def run(self, fn: Callable[[*Ts], R], *args: *Ts) -> R:
        """Run ``fn(*args)`` on the thread and return its result or raise its error.

        A caller that is cancelled while the function runs is held until it has returned, then the cancellation goes on:
        the function touches nothing after its caller has left. A function that had not begun never runs.
        Raises RuntimeError after ``close``.
        """
        if not self._end.alive:
            raise RuntimeError(f"the thread {self.name} has been closed")
        if self._thread.ident is None:
            self._thread.start()
            _threads[self._thread] = self._jobs
        job: _Job[R] = _Job(lambda: fn(*args), asyncio.get_running_loop())
        self._jobs.put(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            if not job.claim():
                await outlast(job.returned())
            raise

    def close(self) -> None:
        """End the thread after the function that is running, if any; those that wait are cancelled."""
        if self._end.detach() is None:
            return
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None and job.claim():
                    job.cancel()
        self._jobs.put(None)


class _Job(Generic[R]):
    """One call: whoever claims it first, the thread or a caller that gives up, decides whether it runs."""

    def __init__(self, call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._claimed = threading.Lock()
        self._has_returned = False
        self.done: asyncio.Future[R] = loop.create_future()

    def claim(self) -> bool:
        return self._claimed.acquire(blocking=False)

    def run(self) -> None:
        """Call, on the thread, and tell the caller's loop."""
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001  # it is the caller's
            self.fail(error)
        else:
            self._tell(self._finish, result)

    def fail(self, error: BaseException) -> None:
        """Tell the caller's loop of an error."""
        if isinstance(error, StopIteration):  # no future takes one: it would end whatever generator awaits it
            stopped, error = error, RuntimeError(f"a function in a worker thread raised {error!r}")
            error.__cause__ = stopped
        self._tell(self._fail, error)

    def cancel(self) -> None:
        """Tell the caller's loop that the call will never run."""
        self._tell(self._cancel)

    def returned(self) -> asyncio.Future[R]:
        """Return, to a caller that was cancelled, a future that is done when the function has returned."""
        if not self._has_returned:
            self.done = self._loop.create_future()
        return self.done

    def _tell(self, fn: Callable[[*Ts], object], *args: *Ts) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(fn, *args)

    def _cancel(self) -> None:
        self._has_returned = True
        self.done.cancel()

    def _finish(self, result: R) -> None:
        self._has_returned = True
        if not self.done.done():
            self.done.set_result(result)

    def _fail(self, error: BaseException) -> None:
        self._has_returned = True
        if not self.done.done():
            self.done.set_exception(error)


def _work(jobs: "SimpleQueue[_Job[Any] | None]", on_start: Callable[[], None] | None) -> None:
    failure = None if on_start is None else _failure_of(on_start)
    while (job := jobs.get()) is not None:
        if job.claim():
            if failure is None:
                job.run()
            else:
                job.fail(failure)
        del job  # or its arguments would live until the next one comes


def _failure_of(on_start: Callable[[], None]) -> BaseException | None:
    try:
        on_start()
    except BaseException as error:  # noqa: BLE001  # whoever calls hears of it
        return error
    return None


@atexit.register
def _end_all() -> None:
    """Let the functions that run return: torch, back from one to an interpreter that is gone, aborts the process.

    Those of closed threads too.
    """
    until, threads = time.monotonic() + JOIN_S, dict(_threads)
    for jobs in threads.values():
        jobs.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))


async def outlast(done: asyncio.Future[R]) -> None:
    """Wait for a future whatever cancellation comes; whoever calls this goes on with the one it already has."""
    with anyio.CancelScope(shield=True):
        while not done.done():
            try:
                await asyncio.wait((done,))
            except asyncio.CancelledError:
                continue
    if not done.cancelled():
        done.exception()  # the cancellation wins over an error of the function
