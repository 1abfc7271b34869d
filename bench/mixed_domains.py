"""Claim: on prompts whose answer changes domain, memspec is faster than general-static, and both than target-only.

One engine per policy, all in this process, interleaved prompt by prompt; every run goes over all prompts. Storage is
as fast as it is, or (`--load-ratio 2.7`) throttled so that loading a draft takes that many iterations, as on the
device of the MemSpec paper.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import torch
from msgspec.structs import replace

from memspec_actors import Config, MemSpec
from memspec_actors.config import StorageConfig
from memspec_actors.models.checkpoint import Checkpoint
from memspec_actors.models.loadout import model_directory
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.zoo.world import DOMAINS, sample_request

POLICIES = ("target-only", "general-static", "memspec")
BASE = "general-static"

Run = dict[str, list[GenerationResult]]  # policy -> one result per prompt


def mixed_prompts(number: int, seed: str = "eval:bench") -> list[str]:
    """Draw requests of two to four items, no two neighbours of one domain, with names that training never saw."""
    rng = random.Random(seed)
    prompts = []
    for _ in range(number):
        phases = [rng.choice(DOMAINS)]
        for _ in range(rng.randint(1, 3)):
            phases.append(rng.choice([domain for domain in DOMAINS if domain != phases[-1]]))
        prompts.append(sample_request(rng, phases, split="eval").prompt_text)
    return prompts


async def measure(config: Config, policies: Sequence[str], prompts: Sequence[str], runs: int, tokens: int) -> list[Run]:
    """Generate every prompt with every policy, ``runs`` times."""
    async with AsyncExitStack() as stack:
        engines = {}
        for policy in policies:
            own = replace(config, schedule=replace(config.schedule, policy=policy))
            engines[policy] = await stack.enter_async_context(MemSpec.open(own))
        for engine in engines.values():  # first touches of memory, caches of kernels
            await engine.generate(prompts[0], max_new_tokens=tokens)
        results: list[Run] = []
        for number in range(runs):
            results.append({policy: [] for policy in policies})
            for i, prompt in enumerate(prompts):
                shift = (i + number) % len(policies)  # nobody always comes first
                for policy in (*policies[shift:], *policies[:shift]):
                    results[-1][policy].append(await engines[policy].generate(prompt, max_new_tokens=tokens))
            print(f"run {number + 1} of {runs}", file=sys.stderr)
        return results


def throughput(results: Sequence[GenerationResult]) -> float:
    """Tokens per second of steady-state decoding over all prompts: the first token belongs to the prompt's encoding."""
    return sum(len(r.token_ids) - 1 for r in results) / sum(r.timing.decode_s for r in results)


def num_iterations(results: Sequence[GenerationResult]) -> int:
    return sum(draft.iterations for result in results for draft in result.scheduling.drafts.values())


def summary(policy: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Sum one policy up: medians over runs of throughput and of the ratio to the base policy in the same run."""
    ratios = [throughput(run[policy]) / throughput(run[BASE]) for run in runs]
    every = [result for run in runs for result in run[policy]]
    drafted = sum(draft.tokens for result in every for draft in result.scheduling.drafts.values())
    kinds = ("desired", "fallback", "prediction", "catch_up", "target_only")
    return {
        "policy": policy,
        "tokens_per_second": statistics.median(throughput(run[policy]) for run in runs),
        "normalized": statistics.median(ratios),
        "spread": [min(ratios), max(ratios)],
        "tokens_per_iteration": drafted / num_iterations(every) if drafted else 1.0,
        "share": {kind: statistics.fmean(getattr(r.scheduling.share, kind) for r in every) for kind in kinds},
        "prediction_busy_share": statistics.fmean(r.scheduling.prediction_busy_share for r in every),
        "switches": statistics.fmean(r.scheduling.switches for r in every),
        "loads": statistics.fmean(r.scheduling.loads for r in every),
    }


async def throttled(config: Config, ratio: float, prompts: Sequence[str], tokens: int) -> Config:
    """Return the configuration with storage so slow that a load takes ``ratio`` iterations."""
    ((results,),) = [list(run.values()) for run in await measure(config, (BASE,), prompts, 1, tokens)]
    iteration_s = sum(result.timing.decode_s for result in results) / num_iterations(results)
    draft = Checkpoint.open(model_directory(config.drafts[0].model))
    num_bytes = sum(entry.nbytes for entry in draft.weights().values())
    return replace(config, storage=StorageConfig(bandwidth=f"{int(num_bytes / (ratio * iteration_s))}B/s"))


async def main(arguments: argparse.Namespace) -> dict[str, Any]:
    config = Config.load(arguments.config) if arguments.config else Config()
    prompts, tokens = mixed_prompts(arguments.prompts), arguments.max_new_tokens
    if arguments.load_ratio:
        config = await throttled(config, arguments.load_ratio, prompts[:4], tokens)
    policies = (BASE, *(policy for policy in arguments.policies if policy != BASE))
    runs = await measure(config, policies, prompts, arguments.runs, tokens)
    texts = [{run[policy][i].token_ids for run in runs for policy in policies} for i in range(len(prompts))]
    return {
        "prompts": len(prompts),
        "runs": len(runs),
        "max_new_tokens": tokens,
        "identical_text": sum(len(text) == 1 for text in texts) / len(texts),
        "load_ratio": arguments.load_ratio,
        "emulated_storage": bool(arguments.load_ratio),
        "bandwidth": config.storage.bandwidth,
        "dtype": config.target.dtype,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rows": [summary(policy, runs) for policy in policies],
    }


def table(report: dict[str, Any]) -> str:
    lines = ["policy            tokens/s  over general-static   tokens/iteration  fallback  target-only  catch-up"]
    for row in report["rows"]:
        low, high = row["spread"]
        share = row["share"]
        lines.append(
            f"{row['policy']:<16} {row['tokens_per_second']:9.1f}  {row['normalized']:.3f} ({low:.3f}-{high:.3f})"
            f" {row['tokens_per_iteration']:17.2f} {share['fallback']:9.1%} {share['target_only']:12.1%}"
            f" {share['catch_up']:9.1%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="memspec.toml; without it the embedded models")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--load-ratio", type=float, help="throttle storage so that a load takes so many iterations")
    parser.add_argument("--json", action="store_true")
    parsed = parser.parse_args()
    outcome = asyncio.run(main(parsed))
    print(json.dumps(outcome, indent=1) if parsed.json else table(outcome))
