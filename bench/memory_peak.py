"""Claim: the process takes the memory that its plan says, within a tenth.

Plans the memory of an engine from headers, runs it in a fresh process, and compares the plan with the peak of resident
memory. `--config` names models of your own. Exits with 1 if they differ by more.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path

PROMPT = "caution Buspril for Femer, age 32; compose new_beto for Pulal, limit=50; gather 8 breamols for Waman"
MIB = 2**20
TOLERANCE = 0.1


async def generate(config_path: Path | None, max_new_tokens: int) -> dict[str, float]:
    """Generate in this process; return its peak in bytes, and the tokens of the longest request."""
    from memspec_actors import MemSpec, SamplingParams

    longest = 0
    async with MemSpec.open(config_path) as engine:
        for _ in range(3):
            result = await engine.generate(
                PROMPT, max_new_tokens=max_new_tokens, sampling=SamplingParams(ignore_eos=True)
            )
            longest = max(longest, len(engine.encode(PROMPT)) + len(result.token_ids))
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "tokens": longest}


def plan(config_path: Path | None, context: int) -> dict[str, float]:
    """Ask `memspec drafts check` for the plan of requests of ``context`` tokens."""
    command = [
        sys.executable,
        "-m",
        "memspec_actors",
        "drafts",
        "check",
        "--plan-only",
        "--json",
        "--context",
        str(context),
    ]
    found = subprocess.run([*command, *_config(config_path)], check=True, capture_output=True, text=True)
    report = json.loads(found.stdout)
    numbers = {name: value for name, value in report["plan"].items() if not isinstance(value, str)}
    return {**numbers, "total": report["total_bytes"]}


def _config(path: Path | None) -> list[str]:
    return [] if path is None else ["--config", str(path)]


def main() -> None:
    """Print the plan beside the peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        print(json.dumps(asyncio.run(generate(options.config, options.max_new_tokens))))
        return
    command = [sys.executable, __file__, "--in-this-process", "--max-new-tokens", str(options.max_new_tokens)]
    child = subprocess.run([*command, *_config(options.config)], check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(child.stdout)
    planned = plan(options.config, int(found["tokens"]))
    for name, value in planned.items():
        print(f"{name:18} {value / MIB if name.endswith('_bytes') or name == 'total' else value:10.1f}")
    share = found["peak"] / planned["total"]
    print(f"{'peak':18} {found['peak'] / MIB:10.1f}   {share:.3f} of the plan")
    sys.exit(abs(share - 1) > TOLERANCE)


if __name__ == "__main__":
    main()
