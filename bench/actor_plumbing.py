"""Measure what a message costs: tell, ask and a hop to a worker thread, in microseconds.

Run as ``python bench/actor_plumbing.py [--json]``. Each figure is the median over rounds; beside it stands what
asyncio costs without the runtime, or the standard library's executor in place of our thread.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from memspec_actors.runtime import Actor, ActorRef, ActorSystem, MailboxPolicy, Workers

ROUNDS = 15
MESSAGES = 2000


class Counter(Actor[int]):
    """Count messages; answer with the count."""

    def __init__(self) -> None:
        self.count = 0

    async def receive(self, message: int) -> int:
        self.count += 1
        return self.count


async def main() -> dict[str, float]:
    """Return every figure in microseconds per message."""
    system = ActorSystem()
    ref = system.spawn("counter", Counter, mailbox=MailboxPolicy(capacity=MESSAGES + 1))
    workers, pool = Workers("bench"), ThreadPoolExecutor(1)
    async with system:
        figures = {
            "queue put and get (floor)": await _median_us(_queue),
            "tell, handled": await _median_us(lambda: _tell(ref)),
            "future answered by a task (floor)": await _median_us(_answer),
            "ask": await _median_us(lambda: _ask(ref)),
            "thread hop by an executor": await _median_us(lambda: _pool_hop(pool)),
            "thread hop": await _median_us(lambda: _hop(workers)),
        }
    workers.close()
    pool.shutdown()
    return figures


async def _median_us(round_of: Callable[[], Awaitable[None]]) -> float:
    await round_of()
    walls = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        await round_of()
        walls.append(time.perf_counter() - begin)
    return statistics.median(walls) / MESSAGES * 1e6


async def _queue() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(MESSAGES)
    for i in range(MESSAGES):
        queue.put_nowait(i)
    for _ in range(MESSAGES):
        await queue.get()


async def _tell(ref: ActorRef[int]) -> None:
    for i in range(MESSAGES - 1):
        ref.tell(i)
    await ref.ask(0, timeout_s=None)  # all are handled once the last is answered


async def _answer() -> None:
    queue: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()

    async def answerer() -> None:
        while True:
            (await queue.get()).set_result(1)

    task = asyncio.create_task(answerer())
    for _ in range(MESSAGES):
        reply = asyncio.get_running_loop().create_future()
        queue.put_nowait(reply)
        await reply
    task.cancel()


async def _ask(ref: ActorRef[int]) -> None:
    for i in range(MESSAGES):
        await ref.ask(i, timeout_s=1.0)


async def _pool_hop(pool: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    for i in range(MESSAGES):
        await loop.run_in_executor(pool, abs, i)


async def _hop(workers: Workers) -> None:
    for i in range(MESSAGES):
        await workers.run(abs, i)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    measured = asyncio.run(main())
    if as_json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
        print(json.dumps({"microseconds": measured, "messages": MESSAGES, "rounds": ROUNDS, **machine}))
    else:
        for what, us in measured.items():
            print(f"{what:34} {us:8.2f} us")
