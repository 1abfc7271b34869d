"""HTTP clients for `bench/serve.py`, in a process of their own.

``load ADDRESS CLIENTS SECONDS`` reads the texts to be expected as JSON from standard input, and prints counts;
``one-by-one ADDRESS`` streams a prompt for every line.
"""

import asyncio
import json
import random
import socket
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from memspec_actors.zoo.world import sample_phases, sample_request

__all__ = ["MAX_TOKENS", "NUM_PROMPTS", "OVERHEAD_TOKENS", "TEMPERATURE", "prompts"]

NUM_PROMPTS = 24
MAX_TOKENS = 48
OVERHEAD_TOKENS = 128
TEMPERATURE = 0.7
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"


def prompts() -> list[str]:
    """Return the prompts that both sides know."""
    rng = random.Random("bench:serve")
    return [sample_request(rng, sample_phases(rng), split="eval").prompt_text for _ in range(NUM_PROMPTS)]


def _body(prompt: str, seed: int, *, stream: bool, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
    return {
        "model": "memspec-zoo", "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
        "temperature": TEMPERATURE, "seed": seed, "stream": stream,
    }  # fmt: skip


async def _read_stream(http: httpx2.AsyncClient, address: str, asked: dict[str, Any], leave_after: int | None) -> str:
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


async def _load(address: str, num_clients: int, seconds: float, expected: list[str]) -> dict[str, int]:
    """Run the clients; return how many replies were whole, left, busy, and wrong."""
    counts = {"whole": 0, "left": 0, "busy": 0, "wrong": 0, "failed": 0}
    until = time.monotonic() + seconds
    texts = prompts()

    async def client(number: int, http: httpx2.AsyncClient) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            which, kind = rng.randrange(NUM_PROMPTS), rng.choice(["stream", "stream", "whole", "leave"])
            asked = _body(texts[which], which, stream=kind != "whole")
            try:
                if kind == "whole":
                    reply = await http.post(f"{address}/v1/chat/completions", json=asked)
                    reply.raise_for_status()
                    text = reply.json()["choices"][0]["message"]["content"]
                else:
                    text = await _read_stream(http, address, asked, rng.randint(1, 4) if kind == "leave" else None)
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


def _one_by_one(address: str) -> None:
    """Stream a prompt for every line on standard input; write how long it took, and the text."""
    texts, url = prompts(), urlsplit(address)
    with socket.create_connection((url.hostname, url.port)) as connection:
        for line in sys.stdin:
            asked = json.dumps(_body(texts[int(line)], 1, stream=True, max_tokens=OVERHEAD_TOKENS)).encode()
            started = time.perf_counter()
            connection.sendall(HEAD % (url.netloc.encode(), len(asked)) + asked)
            text = _read_text(connection)
            _tell([time.perf_counter() - started, text])


def _read_text(connection: socket.socket) -> str:
    """Return the text of a stream of events, decoded as they come."""
    text, rest = "", b""
    while True:
        received = connection.recv(2**16)
        if not received:
            raise ConnectionError("the daemon went away amid a reply")
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                text += json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"].get("content", "")
        if b"0\r" in lines:  # the chunk that ends a reply
            return text


def _tell(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _main() -> None:
    match sys.argv[1:]:
        case "load", address, num_clients, seconds:
            _tell(asyncio.run(_load(address, int(num_clients), float(seconds), json.load(sys.stdin))))
        case "one-by-one", address:
            _one_by_one(address)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    _main()
