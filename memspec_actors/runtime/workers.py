"""A thread of one's own for work that would block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

import anyio

__all__ = ["Workers", "outlast"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Workers:
    """Run functions one after the other on one dedicated, named thread, which calls ``on_start`` first of all."""

    def __init__(self, name: str, on_start: Callable[[], None] | None = None) -> None:
        self.name = name
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name, initializer=on_start)

    async def run(self, fn: Callable[[*Ts], R], *args: *Ts) -> R:
        """Run ``fn(*args)`` on the thread and return its result or raise its error.

        A caller that is cancelled while the function runs is held until it has returned, then the cancellation goes on:
        the function touches nothing after its caller has left. A function that had not begun never runs.
        Raises RuntimeError after ``close``.
        """
        job = self._executor.submit(fn, *args)
        done = asyncio.wrap_future(job)
        try:
            await asyncio.wait((done,))
        except asyncio.CancelledError:
            if not job.cancel():
                await outlast(done)
            raise
        return done.result()

    def close(self) -> None:
        """End the thread after the function that is running, if any; those that wait are cancelled."""
        self._executor.shutdown(wait=False, cancel_futures=True)


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
