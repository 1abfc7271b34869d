"""Claim: greedy text is the target's own, token for token, under every policy.

The reference is transformers' `generate` on the same checkpoint. A first difference is reported with its position and
the gap between the reference's two best logits there: in low precision a near-tie may flip.
"""

import argparse
import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from memspec_actors import Config, MemSpec
from memspec_actors.loadout import model_directory
from memspec_actors.zoo.world import DOMAINS, sample_phases, sample_request


def zoo_prompts(number: int) -> list[str]:
    rng = random.Random("eval:identity")
    return [sample_request(rng, sample_phases(rng), split="eval").prompt_text for _ in range(number)]


def file_prompts(paths: list[Path], number: int) -> list[str]:
    """Take ``number`` prompts from JSON lines with a "prompt", in turn from each file."""
    files = [[json.loads(line)["prompt"] for line in path.read_text(encoding="utf-8").splitlines()] for path in paths]
    turns = [file[i] for i in range(max(map(len, files), default=0)) for file in files if i < len(file)]
    return turns[:number]


def reference(model: Any, ids: tuple[int, ...], tokens: int, eos: tuple[int, ...]) -> list[int]:
    inputs = torch.tensor([ids])
    out = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        max_new_tokens=tokens,
        do_sample=False,
        eos_token_id=list(eos) or None,
    )
    generated: list[int] = out[0, len(ids) :].tolist()
    return generated


@torch.inference_mode()
def gap(model: Any, ids: list[int]) -> float:
    """Difference of the two best logits after ``ids``."""
    best = model(torch.tensor([ids])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def first_difference(ours: tuple[int, ...], theirs: list[int]) -> int | None:
    if list(ours) == theirs:
        return None
    return next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))


async def main(arguments: argparse.Namespace) -> dict[str, Any]:
    config = Config.load(arguments.config) if arguments.config else Config()
    directory = model_directory(config.target.model)
    dtype = getattr(torch, config.target.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    prompts = zoo_prompts(arguments.zoo_prompts) + file_prompts(arguments.prompts, arguments.file_prompts)
    rows = {
        policy: {"policy": policy, "prompts": 0, "identical": 0, "differences": []} for policy in arguments.policies
    }
    async with MemSpec.open(config) as engine:
        for number, prompt in enumerate(prompts):
            ids = engine.encode(prompt)[-arguments.max_prompt_tokens :]
            theirs = reference(model, ids, arguments.max_new_tokens, engine.end_ids)
            for policy, row in rows.items():
                result = await engine.generate(ids, max_new_tokens=arguments.max_new_tokens, policy=policy)
                at = first_difference(result.token_ids, theirs)
                row["prompts"] += 1
                row["identical"] += at is None
                if at is not None:
                    row["differences"].append(
                        {"prompt": number, "position": at, "logit_gap": gap(model, [*ids, *theirs[:at]])}
                    )
            print(f"\r{number + 1} of {len(prompts)} prompts", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {
        "zoo_prompts": arguments.zoo_prompts,
        "file_prompts": len(prompts) - arguments.zoo_prompts,
        "dtype": config.target.dtype,
        "transformers": transformers.__version__,
        "rows": list(rows.values()),
    }


if __name__ == "__main__":
    statics = [f"static:{name}" for name in DOMAINS if name != "general"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="memspec.toml; without it the embedded models")
    parser.add_argument("--policies", nargs="+", default=["target-only", "general-static", "memspec", *statics])
    parser.add_argument("--zoo-prompts", type=int, default=100)
    parser.add_argument("--prompts", nargs="*", type=Path, default=[], help="JSON lines with a prompt each")
    parser.add_argument("--file-prompts", type=int, default=100)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--max-prompt-tokens", type=int, default=512, help="keep the end of longer prompts")
    outcome = asyncio.run(main(parser.parse_args()))
    print(json.dumps(outcome, indent=1))
    sys.exit(any(row["differences"] for row in outcome["rows"]))
