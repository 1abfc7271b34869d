"""How fast an event log is read: typed records against the plainest loops over the same file.

Prints megabytes per second of one core: the median of several interleaved rounds, lowest and highest beside it.
``lines`` only splits the file: nothing that looks at every line can be faster.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memspec_actors.protocols.events import Iteration, RankingApplied
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry import EventLog, read
from memspec_actors.telemetry.audit import audit
from memspec_actors.telemetry.summary import summarize

ITERATIONS_PER_RANKING = 4


def write_log(path: Path, num_iterations: int) -> None:
    """Write what decoding writes most: iterations, and a ranking for every four of them."""
    log = EventLog.open(path)
    for index in range(num_iterations):
        if index % ITERATIONS_PER_RANKING == 0:
            order = ("medical", "code", "law", "math", "general")
            log.write(RankingApplied(actor="decoder", request_id="0123456789abcdef", interval=index // 4, order=order))
        log.write(_iteration(index))
    log.close()


def _iteration(index: int) -> Iteration:
    return Iteration(
        actor="decoder", request_id="0123456789abcdef", interval=index // 4, epoch=7, iteration=index,
        draft=ResidentDraft("medical", 3), desired="medical", share="desired", drafted=5, accepted=4, emitted=5,
        committed=100 + 5 * index, catch_up_tokens=0, catch_up_us=0.0, draft_us=2301.7, verify_us=11345.125,
        wall_us=14023.882, gap_us=211.339, waited_us=0.0,
    )  # fmt: skip


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ways: dict[str, Callable[[Path], object]] = {
        "lines": lambda path: sum(1 for _ in _lines(path)),
        "json.loads": lambda path: sum(1 for line in _lines(path) if json.loads(line)),
        "read": lambda path: sum(1 for _ in read(path)),
        "audit": audit,
        "summarize": summarize,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        write_log(path, options.iterations)
        megabytes = path.stat().st_size / 1e6
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                started = time.process_time()
                way(path)
                speeds[name].append(megabytes / (time.process_time() - started))
    print(f"{megabytes:.0f} MB, {options.rounds} rounds")
    for name, measured in speeds.items():
        print(f"{name:12} {statistics.median(measured):7.0f} MB/s ({min(measured):.0f}-{max(measured):.0f})")


if __name__ == "__main__":
    main()
