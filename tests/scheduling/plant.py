"""The drafts and limits of a world in which a residency state machine lives, and what fits into it."""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memspec_actors.protocols.messages import Placement

ALIGNMENT = 64


@dataclass(frozen=True)
class Plant:
    """The drafts and limits of one world; ``parts`` maps each draft to its artefacts and their bytes."""

    parts: dict[str, dict[str, int]]
    capacity: int
    budget: int

    @property
    def names(self) -> list[str]:
        return sorted(self.parts)

    @property
    def uniform(self) -> bool:
        """Whether any K drafts fit, wherever they lie: then the working set is the paper's top K."""
        sizes = {n for parts in self.parts.values() for n in parts.values()}
        own = all(set(parts) == {name} for name, parts in self.parts.items())
        return own and len(sizes) == 1 and aligned(max(sizes)) * self.capacity <= self.budget

    def bytes(self, names: Iterable[str]) -> int:
        return sum({a: n for name in names for a, n in self.parts[name].items()}.values())

    def packs(self, names: Iterable[str]) -> bool:
        """Whether an empty arena holds these drafts, laid end to end."""
        end = 0
        for nbytes in {a: n for name in names for a, n in self.parts[name].items()}.values():
            end = aligned(end) + nbytes
        return end <= self.budget

    def working_set(self, order: Sequence[str], depth: int | None) -> list[str]:
        wanted: list[str] = []
        for name in order:
            if len(wanted) < min(self.capacity, self.capacity if depth is None else depth) and self.packs(
                [*wanted, name]
            ):
                wanted.append(name)
        return wanted

    def has_room(self, name: str, staying: Iterable[tuple[Placement, ...]]) -> bool:
        """Whether a draft fits beside those that stay where they are: tries every aligned place for every artefact."""
        taken = {p.artefact: (p.offset, p.nbytes) for placements in staying for p in placements}
        absent = [n for a, n in self.parts[name].items() if a not in taken]
        for places in itertools.product(range(0, self.budget, ALIGNMENT), repeat=len(absent)):
            ranges = sorted([*taken.values(), *zip(places, absent, strict=True)])
            inside = all(offset + n <= self.budget for offset, n in ranges)
            if inside and all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges)):
                return True
        return False


def aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def uniform_plant(rng: random.Random) -> Plant:
    num_drafts, capacity, nbytes = rng.randint(1, 5), rng.randint(1, 4), rng.choice([64, 100])
    budget = aligned(nbytes) * capacity + rng.choice([0, 64])
    return Plant({name: {name: nbytes} for name in "abcde"[:num_drafts]}, capacity, budget)


def mixed_plant(rng: random.Random) -> Plant:
    parts: dict[str, dict[str, int]] = {}
    for name in "abcde"[: rng.randint(2, 5)]:
        parts[name] = {f"{name}.own": rng.choice([40, 64, 100, 200, 400])}
        if rng.random() < 0.5:
            parts[name][rng.choice(["base1", "base2"])] = 192
    return Plant(parts, rng.randint(1, 4), rng.choice([256, 512, 704, 1024]))
