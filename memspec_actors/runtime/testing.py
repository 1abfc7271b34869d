"""Run asyncio code in virtual time, with its tasks interleaved by a seed: same seed, same run.

This module reaches into private parts of asyncio's event loop; nothing but tests and simulations should import it.
"""

import asyncio
import itertools
import random
import selectors
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, TypeVarTuple

import anyio

from memspec_actors.runtime.workers import Workers, outlast

__all__ = ["Cost", "Deadlock", "VirtualTimeLoop", "VirtualWorkers", "run_virtual"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
Cost = float | Iterable[float]  # seconds


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, so nothing can ever happen again; names the tasks that wait."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Jump to the next timer instead of sleeping, and step the tasks that are ready in an order drawn from ``seed``.

    Only steps of tasks change places, and none with ``seed`` None: plain callbacks run first in, first out, as asyncio
    promises. Time starts at 0. Raises Deadlock when every task waits for another. Threads are not waited for: use
    VirtualWorkers.
    """

    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int | None = 0) -> None:
        self._now_s = 0.0
        self._random = None if seed is None else random.Random(seed)
        self._numbers = itertools.count()
        self._births: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()
        super().__init__(_JumpingSelector(self._jump))
        self.set_task_factory(self._bear)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now_s

    def _jump(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            waiting = sorted(f"{task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks(self))
            raise Deadlock("every task waits for another: " + "; ".join(waiting))
        self._now_s += timeout_s

    def _bear(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **kwargs)
        self._births[task] = next(self._numbers)
        return task

    def _run_once(self) -> None:
        steps = [(i, task) for i, handle in enumerate(self._ready) if (task := _task_of(handle)) is not None]
        if self._random is not None and len(steps) > 1:
            # By birth first: cancel scopes keep tasks in sets, whose order would differ from run to run.
            order = [i for i, task in sorted(steps, key=lambda step: self._births.get(step[1], -1))]
            self._random.shuffle(order)
            handles = [self._ready[i] for i in order]
            for (i, _), handle in zip(steps, handles, strict=True):
                self._ready[i] = handle
        super()._run_once()  # type: ignore[misc]


class VirtualWorkers(Workers):
    """Stand in for Workers in virtual time: no thread, and a function takes effect after its cost has passed.

    ``cost_s`` is a number of seconds, or is called as ``cost_s(fn, *args)`` and gives that number, or several that pass
    one after the other, each asked for when it begins. Order and cancellation are as in Workers.
    """

    def __init__(self, name: str = "virtual", cost_s: Cost | Callable[..., Cost] = 0.0) -> None:
        super().__init__(name)
        self._cost_s = cost_s
        self._turn = asyncio.Lock()
        self._closed = False

    async def run(self, fn: Callable[[*Ts], R], *args: *Ts) -> R:
        """Let the cost of ``fn(*args)`` pass, then call it inline."""
        if self._closed:
            raise RuntimeError(f"workers {self.name!r} were closed")
        async with self._turn:
            job = asyncio.create_task(self._work(fn, *args))
            try:
                await asyncio.wait((job,))
            except asyncio.CancelledError:
                await outlast(job)
                raise
            return job.result()

    def close(self) -> None:
        """Refuse further work."""
        self._closed = True
        super().close()

    async def _work(self, fn: Callable[[*Ts], R], *args: *Ts) -> R:
        cost = self._cost_s(fn, *args) if callable(self._cost_s) else self._cost_s
        for delay_s in cost if isinstance(cost, Iterable) else (cost,):
            await asyncio.sleep(delay_s)
        return fn(*args)


def run_virtual(async_fn: Callable[[], Awaitable[R]], *, seed: int | None = 0) -> R:
    """Run ``async_fn()`` to its end on a fresh VirtualTimeLoop and return its result. Raises Deadlock."""
    return anyio.run(async_fn, backend="asyncio", backend_options={"loop_factory": lambda: VirtualTimeLoop(seed)})


class _JumpingSelector(selectors.SelectSelector):
    """Report what is ready at once; where that is nothing, let virtual time jump instead of waiting."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self._jump(timeout)
        return ready


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    """Return the task that this handle steps, None for a plain callback."""
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return owner if isinstance(owner, asyncio.Task) else None
