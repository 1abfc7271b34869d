"""What a ranking costs: its floor, alone, after pauses, and in an engine at work.

Run as ``python bench/ranking_cost.py [--json]``; a minute on two cores. Given are medians in microseconds of processor
time, in the engine also of the time from beginning to end, and both over decode time. A ranking that follows another at
once finds its code in the core's caches; after the pause of an interval it does not, and takes more than twice as long.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from msgspec.structs import replace

from memspec_actors import Config, MemSpec, zoo
from memspec_actors.bench.datasets import MIXED, zoo_datasets
from memspec_actors.bench.policies import throttled
from memspec_actors.config import EventsConfig
from memspec_actors.predictor.encoder import EncoderConfig
from memspec_actors.predictor.ranker import PredictorRanker, open_artefact
from memspec_actors.protocols.events import PredictionMade
from memspec_actors.scheduling.rankers import RankingContext
from memspec_actors.telemetry import read

TOKENS, REPEATS, RUNS = 96, 100, 3
PAUSES_MS = (0, 1, 5, 20)


def floor_us() -> dict[str, float]:
    """Return the time of a ranking's sums at the speed of a large product, and of its weights at that of a sum."""
    encoder = open_artefact(zoo.path("encoder"))[0]
    config, size = encoder.config, 512
    weights = torch.cat([each.flatten() for layer in encoder.layers for each in layer.parameters()])
    much, square = torch.zeros(16 * len(weights)), torch.randn(size, size)
    product_us, pass_us = _median_us(lambda: square @ square), _median_us(lambda: much.sum())
    return {
        "sums": _num_products(config) * product_us / size**3,
        "weights": pass_us / 16,
    }


def _num_products(config: EncoderConfig) -> int:
    """Count multiplications: of the last layer only keys, values and one row."""
    width, inner = config.hidden_size, config.intermediate_size
    row = 2 * width * width + 2 * width * inner + 2 * TOKENS * width
    layers = config.num_hidden_layers
    return TOKENS * (2 * width * width * layers + row * (layers - 1)) + row


def alone_us(pause_ms: int) -> float:
    """Return the processor time of a ranking after a pause in which this thread slept."""
    ranker = PredictorRanker.open(zoo.path("encoder"), open_artefact(zoo.path("encoder"))[1].drafts)
    ids = tuple(range(5, 5 + TOKENS))
    context = RankingContext(prompt_ids=ids[64:], recent_ids=ids[:64], interval=1)
    return _median_us(lambda: ranker.rank(context), pause_ms)


def _median_us(call: Callable[[], object], pause_ms: int = 0) -> float:
    times = []
    for _ in range(REPEATS):
        if pause_ms:
            time.sleep(pause_ms / 1e3)
        began = time.thread_time_ns()
        call()
        times.append((time.thread_time_ns() - began) / 1e3)
    return median(times)


async def at_work() -> dict[str, float]:
    """Decode mixed prompts with drafts of five tokens, a load taking 2.7 iterations, and read the log."""
    datasets = zoo_datasets(4)
    prompts = [task.prompt for dataset in datasets if dataset.name == MIXED for task in dataset.tasks]
    config = Config()
    config = replace(config, speculation=replace(config.speculation, stop="fixed:5"))
    config = await throttled(config, 2.7, datasets, 128)
    with TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        async with MemSpec.open(replace(config, events=EventsConfig(path=str(log)))) as engine:
            results = [await engine.generate(prompt, max_new_tokens=128) for prompt in prompts * RUNS]
        made = [event for event in read(log) if isinstance(event, PredictionMade)]
    decode_us = sum(result.timing.decode_s for result in results) * 1e6
    cpu_us, wall_us = [event.cpu_us for event in made], [event.predict_us for event in made]
    return {
        "cpu": median(cpu_us),
        "wall": median(wall_us),
        "decoding_per_ranking": decode_us / len(made),
        "cpu_share": sum(cpu_us) / decode_us,
        "wall_share": sum(wall_us) / decode_us,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    torch.set_num_threads(1)
    with torch.inference_mode():
        floor = floor_us()
    alone = {pause_ms: alone_us(pause_ms) for pause_ms in PAUSES_MS}
    engine = asyncio.run(at_work())
    if as_json:
        print(json.dumps({"tokens": TOKENS, "floor_us": floor, "after_pause_ms_us": alone, "engine": engine}))
        return
    print(f"floor: sums {floor['sums']:.0f} us, reading weights {floor['weights']:.0f} us")
    for pause_ms, us in alone.items():
        print(f"after {pause_ms:2} ms: {us:.0f} us")
    print(f"at work: {engine['cpu']:.0f} us, {engine['wall']:.0f} us from beginning to end, of decoding's")
    print(f"{engine['decoding_per_ranking']:.0f} us: {engine['cpu_share']:.1%} and {engine['wall_share']:.1%}")


if __name__ == "__main__":
    main()
