"""What comparisons decode: requests of the embedded models' world by domain, or prompts from a file."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memspec_actors.predictor.prompts import read_prompts
from memspec_actors.zoo.world import DOMAINS, Request, sample_request

__all__ = ["MIXED", "DataSet", "Task", "file_dataset", "zoo_datasets"]

MIXED = "mixed"
NUM_ITEMS = (2, 3, 4)  # of a request
SEED = "eval:bench"


class Task(NamedTuple):
    """One prompt; ``request`` knows the right answer, where there is one."""

    prompt: str
    request: Request | None = None


class DataSet(NamedTuple):
    """Prompts of one kind: ``domain`` is that of all of them, None for mixed or unknown ones."""

    name: str
    domain: str | None
    tasks: tuple[Task, ...]


def zoo_datasets(num_prompts: int) -> list[DataSet]:
    """Draw ``num_prompts`` held-out requests of each domain, and as many in which neighbours differ in domain."""
    rng = random.Random(SEED)
    names: list[str | None] = [*DOMAINS, None]
    return [
        DataSet(
            domain or MIXED,
            domain,
            tuple(_task(rng, _phases(rng, domain, rng.choice(NUM_ITEMS))) for _ in range(num_prompts)),
        )
        for domain in names
    ]


def file_dataset(path: Path, limit: int | None = None) -> DataSet:
    """Read the prompts of a file, which has no answers. Raises TraceError naming file and line."""
    return DataSet(path.stem, None, tuple(Task(prompt.prompt) for prompt in read_prompts(path, limit=limit)))


def _task(rng: random.Random, phases: Sequence[str]) -> Task:
    request = sample_request(rng, phases, split="eval")
    return Task(request.prompt_text, request)


def _phases(rng: random.Random, domain: str | None, num_items: int) -> list[str]:
    if domain is not None:
        return [domain] * num_items
    phases = [rng.choice(DOMAINS)]
    while len(phases) < num_items:
        phases.append(rng.choice([other for other in DOMAINS if other != phases[-1]]))
    return phases
