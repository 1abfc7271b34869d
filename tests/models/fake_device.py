"""A device that is none: its memory is the host's, its copies come late, and recording a step runs it beforehand."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from memspec_actors.models.devices.device import DeviceMemory

TRIAL_RUNS = 3


@dataclass(eq=False)
class LateCopy:
    host: Tensor
    place: Tensor
    copier: "LateCopier"

    def synchronize(self) -> None:
        while self in self.copier.waiting:
            self.copier.run_next()


@dataclass
class LateCopier:
    """Run copies in order, each at some moment drawn from a seed, at the latest when it is waited for."""

    seed: int = 0
    waiting: deque[LateCopy] = field(default_factory=deque)
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def host_buffer(self, nbytes: int) -> Tensor:
        return torch.full((nbytes,), 0xAA, dtype=torch.uint8)

    def begin(self) -> None:
        self.history.append("begin")

    def copy(self, host: Tensor, place: Tensor) -> LateCopy:
        self.history.append("copy")
        copy = LateCopy(host, place, self)
        self.waiting.append(copy)
        for _ in range(self._random.randrange(3)):
            self.run_next()
        return copy

    def run_next(self) -> None:
        if self.waiting:
            copy = self.waiting.popleft()
            copy.place.copy_(copy.host)


@dataclass
class FakeDevice:
    """Behave like a device of ``memory``; ``recorded`` counts the steps that were made repeatable."""

    memory: DeviceMemory | None = None
    num_copiers: int = 0
    recorded: int = 0
    replayed: int = 0
    torch_device = torch.device("cpu")

    def copier(self) -> LateCopier:
        self.num_copiers += 1
        return LateCopier(self.num_copiers)

    def repeatable(self, step: Callable[[], None], rewind: Callable[[], None]) -> Callable[[], None]:
        for _ in range(TRIAL_RUNS):
            rewind()
            step()
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            step()

        return replay
