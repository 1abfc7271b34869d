"""Load the daemon and measure it: python bench/serve.py [--minutes M] [--clients N] [--json]

Part one, load: N clients (a process of their own) stream, ask whole, and go away in the middle, for M minutes. Every
reply that ends must be the text that the library gives for that prompt and seed. Measured: replies, disconnects, the
longest gap of a 1 ms heartbeat on the daemon's event loop and the longest that the loop itself computed (on a busy
machine the gap is other people's), the daemon's resident memory over time, and how long the drain takes.
Part two, overhead: how much longer a client waits for a whole stream than a caller of the library in the daemon's own
process, for the same prompt, seed and 128 tokens. Each prompt is first decoded uncounted, so that its drafts are in
memory for both sides alike, then over HTTP, by the library twice, and over HTTP again; the figure is the median over
prompts of the ratio of the two sides' times. The client's time is from sending the request, on a connection that is
open, to having decoded the last event: the daemon's work, the way through the kernel, waking the client's process, and
reading its JSON on the same cores. It reads a plain socket, since client libraries take milliseconds of their own for
each request, which are not the daemon's. Exit code 1 if a limit is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from memspec_actors.bench import http_clients
from memspec_actors.bench.http_clients import MAX_TOKENS, NUM_PROMPTS, OVERHEAD_TOKENS, TEMPERATURE, prompts
from memspec_actors.config import Config, EventsConfig, ServeConfig
from memspec_actors.daemon.server import serve
from memspec_actors.daemon.service import Service
from memspec_actors.engine import MemSpec
from memspec_actors.protocols.requests import SamplingParams

LIMITS = {"loop_gap_ms": 50.0, "http_overhead": 0.02, "memory_growth": 0.05}


class Heart:
    """Keep the longest time between two beats of a 1 ms heart, and the most that this thread computed in one."""

    def __init__(self) -> None:
        self.gap_s = self.busy_s = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        last, last_busy = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, now_busy = time.perf_counter(), time.thread_time()
            self.gap_s = max(self.gap_s, now - last)
            self.busy_s = max(self.busy_s, now_busy - last_busy)
            last, last_busy = now, now_busy


async def watch_memory(resident: list[int]) -> None:
    while True:
        resident.append(resident_bytes())
        await asyncio.sleep(1.0)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def child(*arguments: str) -> Any:
    return asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        http_clients.__name__,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def under_load(engine: MemSpec, address: str, args: argparse.Namespace) -> dict[str, Any]:
    sampling = [SamplingParams(temperature=TEMPERATURE, seed=seed) for seed in range(NUM_PROMPTS)]
    asked = zip(prompts(), sampling, strict=True)
    expected = [(await engine.generate(p, sampling=s, max_new_tokens=MAX_TOKENS)).text for p, s in asked]
    heart = Heart()
    resident: list[int] = []
    watching = [asyncio.create_task(heart.beat()), asyncio.create_task(watch_memory(resident))]
    process = await child("load", address, str(args.clients), str(args.minutes * 60))
    out, _ = await process.communicate(json.dumps(expected).encode())
    for task in watching:
        task.cancel()
    tenth = max(1, len(resident) // 10)
    early, late = statistics.median(resident[tenth : 3 * tenth]), statistics.median(resident[-2 * tenth :])
    counts: dict[str, Any] = json.loads(out)
    return {
        **counts,
        "loop_gap_ms": heart.gap_s * 1e3,
        "loop_busy_ms": heart.busy_s * 1e3,
        "memory_mib": late / 2**20,
        "memory_growth": late / early - 1,
    }


async def overhead(engine: MemSpec, address: str, rounds: int) -> float:
    """Return by what part a stream over HTTP takes longer than the library's."""
    texts, process = prompts(), await child("one-by-one", address)

    async def over_http(which: int) -> tuple[float, str]:
        process.stdin.write(f"{which}\n".encode())
        took, text = json.loads(await process.stdout.readline())
        return took, text

    async def by_library(which: int) -> tuple[float, str]:
        sampling, text, started = SamplingParams(temperature=TEMPERATURE, seed=1), "", time.perf_counter()
        async for chunk in engine.stream(texts[which], sampling=sampling, max_new_tokens=OVERHEAD_TOKENS):
            text += chunk.text
        return time.perf_counter() - started, text

    ratios: list[float] = []
    for number in range(rounds):
        which = number % NUM_PROMPTS
        _, expected = await by_library(which)
        asked = (over_http, by_library, by_library, over_http)
        (http, library, library_again, http_again) = [await ask(which) for ask in asked]
        assert http[1] == library[1] == expected, "both sides do the same work"
        ratios.append((http[0] + http_again[0]) / (library[0] + library_again[0]))
    process.stdin.close()
    await process.wait()
    return statistics.median(ratios) - 1


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    service = Service(Config(serve=ServeConfig(port=0, queue=args.clients, drain_timeout_s=3.0), events=EventsConfig()))
    told: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(serve(service, told.put_nowait))
    address = (await told.get()).split(" on ")[1].split(",")[0]
    await told.get()
    figures = {"http_overhead": await overhead(service.engine, address, args.rounds)}
    figures |= await under_load(service.engine, address, args)
    started = time.perf_counter()
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    return {**figures, "drain_s": time.perf_counter() - started}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = asyncio.run(measure(args))
    figures |= {"clients": args.clients, "minutes": args.minutes, "machine": platform.processor() or platform.machine()}
    missed = [name for name, limit in LIMITS.items() if figures[name] > limit]
    missed += [name for name in ("wrong", "failed") if figures[name]]
    if args.json:
        print(json.dumps({**figures, "missed": missed}))
    else:
        for name, value in figures.items():
            limit = f"  (limit {LIMITS[name]:g})" if name in LIMITS else ""
            print(f"{name:>14}  {value:.4g}{limit}" if isinstance(value, float) else f"{name:>14}  {value}")
        print("missed: " + (", ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
