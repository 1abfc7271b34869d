"""What AdaSD's statistics cost at 10,000 samples, beside refitting scipy's density for every token.

Measured are the parts of one iteration of eight drafted tokens on the embedded models: the entropies, the distances,
one decision by the densities, and what the VerifierStats adds and publishes. They are given as shares of that
iteration.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import gaussian_kde

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.speculation.divergence import entropy, js_distances
from memspec_actors.speculation.odds import OddsEstimator
from memspec_actors.zoo import path

NUM_SAMPLES, NUM_DRAFTED, CONTEXT = 10_000, 8, 150


def median_us(*calls: Callable[[], object], repeats: int = 41) -> list[float]:
    """Time several calls in turns, so that whatever else runs slows them alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, spent in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            spent.append((time.perf_counter() - began) * 1e6)
    return [statistics.median(spent) for spent in times]


def step(runner: Runner, num_tokens: int) -> Callable[[], object]:
    cache = runner.new_cache(2 * CONTEXT)
    runner.forward(list(range(5, 5 + CONTEXT)), cache, logits_to_keep=1)

    def run() -> None:
        runner.forward(list(range(7, 7 + num_tokens)), cache)
        cache.truncate(CONTEXT)

    return run


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    accepted = rng.beta(1.0, 6.0, NUM_SAMPLES * 4 // 5)
    rejected = rng.beta(5.0, 2.0, NUM_SAMPLES - len(accepted))
    estimator = OddsEstimator()
    for side, is_accepted in ((accepted, True), (rejected, False)):
        for distance in side:
            estimator.add(float(distance), accepted=is_accepted)
    odds = estimator.snapshot()
    target, draft = (open_runner(Checkpoint.open(path(name)), dtype="float32") for name in ("target", "general"))
    p, q = (torch.randn(NUM_DRAFTED, target.vocab_size).mul_(4).softmax(-1) for _ in range(2))

    def publish() -> None:
        for i in range(NUM_DRAFTED + 1):
            estimator.add(0.1, accepted=i < NUM_DRAFTED)
        estimator.snapshot()

    with torch.inference_mode():
        verify, draft_one, entropies, distances, decide, learn, scipys = median_us(
            step(target, NUM_DRAFTED + 1),
            step(draft, 1),
            lambda: [entropy(row) for row in q],
            lambda: js_distances(p, q),
            lambda: odds.probability(0.4, (0.1, 0.2)),
            publish,
            lambda: [gaussian_kde(side)(0.4) for _ in range(NUM_DRAFTED) for side in (accepted, rejected)],
        )
    iteration = verify + NUM_DRAFTED * draft_one
    print(f"an iteration of {NUM_DRAFTED} drafted tokens: {iteration:.0f} us")
    for what, cost in (
        ("entropies", entropies),
        ("Jensen-Shannon distances", distances),
        (f"a decision, {NUM_SAMPLES} samples", decide),
        ("adding and publishing", learn),
        (f"scipy refitted for each token, {NUM_SAMPLES} samples", scipys),
    ):
        print(f"{what:<50} {cost:9.1f} us {cost / iteration:8.2%}")


if __name__ == "__main__":
    main()
