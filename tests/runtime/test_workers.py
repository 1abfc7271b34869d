"""The dedicated thread and its stand-in in virtual time behave alike."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import anyio
import pytest

from memspec_actors.runtime import Workers
from memspec_actors.runtime.testing import VirtualWorkers, run_virtual


def test_every_function_runs_on_the_one_named_thread() -> None:
    """Work would hop between threads, or a profile would not say whose thread it is."""

    async def scenario() -> set[str]:
        workers = Workers("decoder")
        names = {await workers.run(lambda: threading.current_thread().name) for _ in range(5)}
        workers.close()
        return names

    (name,) = asyncio.run(scenario())
    assert name.startswith("decoder")


def test_arguments_results_and_errors_come_through() -> None:
    """A result would be lost, or an error swallowed on the way back."""

    async def scenario(workers: Workers) -> None:
        assert await workers.run(divmod, 17, 5) == (3, 2)
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 17, 0)
        workers.close()
        with pytest.raises(RuntimeError):
            await workers.run(divmod, 17, 5)

    asyncio.run(scenario(Workers("w")))
    run_virtual(lambda: scenario(VirtualWorkers("w")))


def test_an_iterator_that_is_exhausted_ends_no_wait_silently() -> None:
    """A future takes no StopIteration: the caller would wait for ever."""

    async def scenario(workers: Workers) -> None:
        async with asyncio.timeout(30.0):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await workers.run(next, iter(()))
        workers.close()

    asyncio.run(scenario(Workers("w")))
    run_virtual(lambda: scenario(VirtualWorkers("w")))


def test_a_thread_that_cannot_begin_tells_every_caller() -> None:
    """The thread would end, and all callers wait for ever."""

    async def scenario() -> list[object]:
        workers = Workers("w", lambda: int("three"))  # type: ignore[arg-type]
        async with asyncio.timeout(30.0):
            errors = await asyncio.gather(*(workers.run(int) for _ in range(3)), return_exceptions=True)
        workers.close()
        return list(errors)

    assert [type(error) for error in asyncio.run(scenario())] == [ValueError] * 3


@pytest.mark.parametrize("how", ["task", "scope"])
def test_cancelled_caller_waits_until_the_function_returned(how: str) -> None:
    """Memory would be reused while the thread still writes into it, or the cancellation would be lost."""
    release, entered, log = threading.Event(), threading.Event(), list[str]()

    def write() -> None:
        entered.set()
        assert release.wait(30.0)
        log.append("written")

    async def call(workers: Workers, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await workers.run(write)
        finally:
            log.append("caller left")

    async def scenario() -> None:
        workers, scope = Workers("w"), anyio.CancelScope()
        caller = asyncio.create_task(call(workers, scope))
        assert await asyncio.to_thread(entered.wait, 30.0)
        for _ in range(3):
            caller.cancel() if how == "task" else scope.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
        assert log == []
        release.set()
        await asyncio.wait((caller,))
        assert caller.cancelled() == (how == "task")
        assert scope.cancelled_caught == (how == "scope")
        workers.close()

    asyncio.run(scenario())
    assert log == ["written", "caller left"]


def test_cancelled_before_its_turn_never_runs() -> None:
    """A cancelled load would still be read later on."""
    release, ran = threading.Event(), list[str]()

    async def scenario() -> None:
        workers = Workers("w")
        first = asyncio.create_task(workers.run(release.wait, 30.0))
        second = asyncio.create_task(workers.run(ran.append, "second"))
        for _ in range(10):
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        assert await first
        await workers.run(ran.append, "third")
        workers.close()

    asyncio.run(scenario())
    assert ran == ["third"]


def test_closing_cancels_those_that_wait_their_turn_only() -> None:
    """Whoever waits for a closed thread would wait for ever, or lose the work that had begun."""
    release, entered, ran = threading.Event(), threading.Event(), list[str]()

    def work() -> bool:
        entered.set()
        return release.wait(30.0)

    async def scenario() -> None:
        workers = Workers("w")
        first = asyncio.create_task(workers.run(work))
        second = asyncio.create_task(workers.run(ran.append, "second"))
        assert await asyncio.to_thread(entered.wait, 30.0)
        workers.close()
        workers.close()
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        assert await first

    asyncio.run(scenario())
    assert ran == []


def test_process_ends_though_nobody_closed_the_thread() -> None:
    """A program that fails between two requests would hang at its end; and what runs at the end is waited for."""
    program = (
        "import asyncio, threading, time\n"
        "from memspec_actors.runtime import Workers\n"
        "workers, begun = Workers('w'), threading.Event()\n"
        "def work(): begun.set(); time.sleep(0.2); print('worked', flush=True)\n"
        "async def main():\n"
        "    await workers.run(int)\n"
        "    asyncio.create_task(workers.run(work))\n"
        "    await asyncio.to_thread(begun.wait)\n"
        "    raise SystemExit(3)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "worked\n", "")


def test_process_waits_for_the_last_function_of_a_closed_thread() -> None:
    """Torch, coming back on a thread that outlived the interpreter, would abort the process: exit code 134."""
    program = """
import asyncio, threading
from memspec_actors.runtime.workers import Workers

async def main():
    workers, began = Workers("late"), threading.Event()
    def work():
        began.set()
        threading.Event().wait(0.3)
        print("ended", flush=True)
    task = asyncio.ensure_future(workers.run(work))
    while not began.is_set():
        await asyncio.sleep(0)
    workers.close()
    asyncio.get_running_loop().stop()

loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(main())
except RuntimeError:
    pass
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "ended\n", ended


def test_loop_goes_on_while_the_thread_works() -> None:
    """Decoding or loading would block the event loop."""

    async def scenario() -> int:
        workers, turns, stop = Workers("w"), 0, threading.Event()
        working = asyncio.create_task(workers.run(stop.wait, 30.0))
        for _ in range(1000):
            await asyncio.sleep(0)
            turns += not working.done()
        stop.set()
        assert await working
        workers.close()
        return turns

    assert asyncio.run(scenario()) == 1000


@pytest.mark.parametrize("cost_s", [0.5, lambda fn, value: value / 2])
def test_virtual_workers_let_the_cost_pass_one_after_the_other(cost_s: float | Callable[..., float]) -> None:
    """Simulated work would take no time, or two functions would share the one thread."""

    async def scenario() -> list[tuple[float, int]]:
        loop, workers, done = asyncio.get_running_loop(), VirtualWorkers(cost_s=cost_s), list[tuple[float, int]]()

        async def work() -> None:
            value = await workers.run(abs, -1) if not callable(cost_s) else await workers.run(abs, 1)
            done.append((loop.time(), value))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(work)
        return done

    assert run_virtual(scenario) == [(0.5, 1), (1.0, 1), (1.5, 1)]


@pytest.mark.parametrize("how", ["task", "scope"])
@pytest.mark.parametrize("seed", range(10))
def test_virtual_workers_hold_a_cancelled_caller(how: str, seed: int) -> None:
    """A simulation would miss the very races that cancellation-safe workers exclude."""
    log: list[tuple[str, float]] = []

    async def scenario() -> None:
        loop, workers, scope = asyncio.get_running_loop(), VirtualWorkers(cost_s=2.0), anyio.CancelScope()

        async def call() -> None:
            try:
                with scope:
                    await workers.run(lambda: log.append(("written", loop.time())))
            finally:
                log.append(("left", loop.time()))

        caller = asyncio.create_task(call())
        await asyncio.sleep(1.0)
        waiting = asyncio.create_task(workers.run(lambda: log.append(("never", loop.time()))))
        await asyncio.sleep(0.1)
        waiting.cancel()
        caller.cancel() if how == "task" else scope.cancel()
        await asyncio.wait((caller, waiting))
        assert waiting.cancelled()

    run_virtual(scenario, seed=seed)
    assert log == [("written", 2.0), ("left", 2.0)]
