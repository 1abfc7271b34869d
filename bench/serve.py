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
import random
import signal
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from memspec_actors.config import Config, EventsConfig, ServeConfig
from memspec_actors.daemon.server import serve
from memspec_actors.daemon.service import Service
from memspec_actors.engine import MemSpec
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.zoo.world import sample_phases, sample_request

LIMITS = {"loop_gap_ms": 50.0, "http_overhead": 0.02, "memory_growth": 0.05}
MAX_TOKENS = 48
OVERHEAD_TOKENS = 128
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
PROMPTS = 24
MODEL = "memspec-zoo"


def prompts() -> list[str]:
    """Return the prompts that both sides know."""
    rng = random.Random("bench:serve")
    return [sample_request(rng, sample_phases(rng), split="eval").prompt_text for _ in range(PROMPTS)]


def body(prompt: str, seed: int, *, stream: bool, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
    return {
        "model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
        "temperature": 0.7, "seed": seed, "stream": stream,
    }  # fmt: skip


# --- the clients' process ---------------------------------------------------------------------------------------------


async def read_stream(http: httpx2.AsyncClient, address: str, asked: dict[str, Any], leave_after: int | None) -> str:
    """Return the streamed text, or what had come when this client went away after so many chunks."""
    text = ""
    async with http.stream("POST", f"{address}/v1/chat/completions", json=asked) as reply:
        reply.raise_for_status()
        num_chunks = 0
        async for line in reply.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            text += chunk["choices"][0]["delta"].get("content", "")
            num_chunks += 1
            if num_chunks == leave_after:
                break
    return text


async def load(address: str, num_clients: int, seconds: float, expected: list[str]) -> dict[str, int]:
    """Run the clients; return how many replies were whole, left, busy, and wrong."""
    counts = {"whole": 0, "left": 0, "busy": 0, "wrong": 0, "failed": 0}
    until = time.monotonic() + seconds
    texts = prompts()

    async def client(number: int, http: httpx2.AsyncClient) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            which, kind = rng.randrange(PROMPTS), rng.choice(["stream", "stream", "whole", "leave"])
            asked = body(texts[which], which, stream=kind != "whole")
            try:
                if kind == "whole":
                    reply = await http.post(f"{address}/v1/chat/completions", json=asked)
                    reply.raise_for_status()
                    text = reply.json()["choices"][0]["message"]["content"]
                else:
                    text = await read_stream(http, address, asked, rng.randint(1, 4) if kind == "leave" else None)
            except httpx2.HTTPStatusError as error:
                counts["busy" if error.response.status_code in (429, 503) else "failed"] += 1
                await asyncio.sleep(0.05)
                continue
            except httpx2.HTTPError:
                counts["failed"] += 1
                continue
            right = expected[which].startswith(text) if kind == "leave" else text == expected[which]
            counts["wrong" if not right else "left" if kind == "leave" else "whole"] += 1

    limits = httpx2.Limits(max_connections=num_clients)
    async with httpx2.AsyncClient(timeout=120, limits=limits) as http, asyncio.TaskGroup() as group:
        for number in range(num_clients):
            group.create_task(client(number, http))
    return counts


def one_by_one(address: str) -> None:
    """Stream a prompt for every line on standard input; write how long it took, and the text."""
    texts, url = prompts(), urlsplit(address)
    with socket.create_connection((url.hostname, url.port)) as connection:
        for line in sys.stdin:
            asked = json.dumps(body(texts[int(line)], 1, stream=True, max_tokens=OVERHEAD_TOKENS)).encode()
            started = time.perf_counter()
            connection.sendall(HEAD % (url.netloc.encode(), len(asked)) + asked)
            text = read_text(connection)
            print(json.dumps([time.perf_counter() - started, text]), flush=True)


def read_text(connection: socket.socket) -> str:
    """Return the text of a stream of events, decoded as they come."""
    text, rest = "", b""
    while True:
        *lines, rest = (rest + connection.recv(2**16)).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                text += json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"].get("content", "")
        if b"0\r" in lines:  # the chunk that ends a reply
            return text


# --- the daemon's process ---------------------------------------------------------------------------------------------


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
        sys.executable, __file__, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def under_load(engine: MemSpec, address: str, args: argparse.Namespace) -> dict[str, Any]:
    sampling = [SamplingParams(temperature=0.7, seed=seed) for seed in range(PROMPTS)]
    asked = zip(prompts(), sampling, strict=True)
    expected = [(await engine.generate(p, sampling=s, max_new_tokens=MAX_TOKENS)).text for p, s in asked]
    heart = Heart()
    resident: list[int] = []
    watching = [asyncio.create_task(heart.beat()), asyncio.create_task(watch_memory(resident))]
    process = await child("--as-clients", address, "--clients", str(args.clients), "--minutes", str(args.minutes))
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
    texts, process = prompts(), await child("--one-by-one", address)

    async def over_http(which: int) -> tuple[float, str]:
        process.stdin.write(f"{which}\n".encode())
        took, text = json.loads(await process.stdout.readline())
        return took, text

    async def by_library(which: int) -> tuple[float, str]:
        sampling, text, started = SamplingParams(temperature=0.7, seed=1), "", time.perf_counter()
        async for chunk in engine.stream(texts[which], sampling=sampling, max_new_tokens=OVERHEAD_TOKENS):
            text += chunk.text
        return time.perf_counter() - started, text

    ratios: list[float] = []
    for number in range(rounds):
        which = number % PROMPTS
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
    parser.add_argument("--as-clients", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--one-by-one", metavar="ADDRESS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_clients:
        expected = json.loads(sys.stdin.read())
        print(json.dumps(asyncio.run(load(args.as_clients, args.clients, args.minutes * 60, expected))))
        return 0
    if args.one_by_one:
        one_by_one(args.one_by_one)
        return 0
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
