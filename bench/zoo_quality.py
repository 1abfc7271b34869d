"""Claims of the embedded models' card: the target's quality, what each draft accepts, and what switching is worth."""

import argparse
import sys

import msgspec
import torch

from memspec_actors.bench.zoo_quality import evaluate
from memspec_actors.zoo import names, path

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", type=int, default=16, help="held-out requests of each domain")
    parser.add_argument("--mixed", type=int, default=100, help="held-out requests of several domains")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    drafts = [name for name in names() if name not in ("target", "encoder")]
    report = evaluate(path("target").parent, drafts, num_single=arguments.single, num_mixed=arguments.mixed)
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
