"""Claim: with the default threads, ranking and loading beside decoding cost it little.

Decodes with the embedded target and a draft in one thread, as the engine does, while a second thread ranks and a third
reads a draft into the arena, both without pause (the engine does neither all the time, so this is the worst case), and
prints iterations per second for several settings of `[target] threads` and `background_threads`.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import torch

from memspec_actors import Config
from memspec_actors.cores import usable_cores
from memspec_actors.loadout import Loadout
from memspec_actors.models.devices.threads import stand_back, use_threads
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.predictor.ranker import PredictorRanker, predictor_directory
from memspec_actors.scheduling.rankers import RankingContext

CONTEXT, DRAFTED = 128, 5
LOADS = ("alone", "+ predictor", "+ loader", "+ both")


def decode(target: Runner, draft: Runner, seconds: float) -> float:
    """Run draft-and-verify iterations for so long; return how many a second."""
    caches = [runner.new_cache(CONTEXT + DRAFTED + 1) for runner in (target, draft)]
    for runner, cache in zip((target, draft), caches, strict=True):
        runner.forward(list(range(1, CONTEXT + 1)), cache, logits_to_keep=1)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(DRAFTED):
            draft.forward([7], caches[1], logits_to_keep=1)
        target.forward([7] * (DRAFTED + 1), caches[0])
        for cache in caches:
            cache.truncate(CONTEXT)
        count += 1
    return count / (time.perf_counter() - began)


@contextmanager
def beside(actions: list[Callable[[], object]], num_threads: int) -> Iterator[None]:
    """Repeat actions, each in a thread of its own with ``num_threads`` that stands back, as the engine's do."""
    ended = threading.Event()

    def repeat(action: Callable[[], object]) -> None:
        stand_back(num_threads)
        while not ended.is_set():
            action()

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def main() -> None:
    """Print a line per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    loadout = Loadout.open(Config())
    plan = loadout.plans["general"]
    draft_memory, arena = (torch.empty(plan.nbytes, dtype=torch.uint8) for _ in range(2))
    load_into(plan, draft_memory)
    draft = plan.bind(draft_memory)
    ranker = PredictorRanker.open(predictor_directory("zoo"), tuple(loadout.plans), loadout.tokenizer)
    ids = tuple(range(1, 65))
    context = RankingContext(prompt_ids=ids, recent_ids=ids, interval=1, num_generated=64)
    actions: list[Callable[[], object]] = [lambda: ranker.rank(context), lambda: load_into(plan, arena)]
    chosen = {"alone": [], "+ predictor": actions[:1], "+ loader": actions[1:], "+ both": actions}
    settings = list(dict.fromkeys(product((1, max(1, usable_cores() - 1), usable_cores()), (1, usable_cores()))))
    print(f"{usable_cores()} cores; iterations per second, median of {options.runs}\nthreads background", *LOADS)
    for decode_threads, background in settings:
        rates: dict[str, list[float]] = {name: [] for name in LOADS}
        for _ in range(options.runs):
            for name in LOADS:
                with beside(chosen[name], background):
                    use_threads(decode_threads)
                    rates[name].append(decode(loadout.target, draft, options.seconds))
        cells = (f"{statistics.median(rates[name]):8.1f}" for name in LOADS)
        print(f"{decode_threads:7} {background:10}", *cells)


if __name__ == "__main__":
    main()
