"""Drafts as sets of artefacts, and the memory they take: what is shared is placed once and counted once."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from memspec_actors.errors import ConfigError
from memspec_actors.protocols.messages import Placement
from memspec_actors.scheduling.memory import ArenaMap

__all__ = ["Artefact", "DraftArena", "DraftSpec"]


class Artefact(msgspec.Struct, frozen=True):
    """Name a run of ``nbytes`` bytes that lies in memory as one piece; drafts naming the same artefact share it."""

    name: str
    nbytes: int


class DraftSpec(msgspec.Struct, frozen=True):
    """Say what has to be in memory for a draft to run."""

    name: str
    artefacts: tuple[Artefact, ...]


class DraftArena:
    """Keep track of which drafts hold which ranges of an arena of ``budget_bytes`` bytes.

    Raises ConfigError for drafts of the same name, drafts without artefacts, and artefacts that two drafts give
    different sizes, or a budget below 1 byte.
    """

    def __init__(self, specs: Sequence[DraftSpec], budget_bytes: int) -> None:
        if budget_bytes < 1:
            raise ConfigError(f"the memory budget is {budget_bytes} bytes; it must be at least 1")
        _check(specs)
        self.budget_bytes = budget_bytes
        self._specs = {spec.name: spec for spec in specs}
        self._map = ArenaMap(budget_bytes)
        self._held: set[str] = set()

    @property
    def used(self) -> int:
        """Bytes of every artefact of every held draft."""
        return self._map.used

    def nbytes(self, names: Iterable[str]) -> int:
        """Return the bytes that these drafts need together."""
        return sum({artefact.name: artefact.nbytes for artefact in self._artefacts(names)}.values())

    def artefact_names(self, names: Iterable[str]) -> set[str]:
        return {artefact.name for artefact in self._artefacts(names)}

    def could_hold(self, names: Sequence[str]) -> bool:
        """Return whether an empty arena would hold these drafts together."""
        return _place_all(ArenaMap(self.budget_bytes), self._artefacts(names)) is not None

    def would_hold(self, names: Sequence[str]) -> bool:
        """Return whether these drafts would fit if every other one were freed and nothing moved."""
        trial = self._map.copy()
        for artefact in self._artefacts(self._held.difference(names)):
            trial.release(artefact.name)
        return _place_all(trial, self._artefacts(name for name in names if name not in self._held)) is not None

    def place(self, name: str, present: Collection[str]) -> tuple[Placement, ...] | None:
        """Reserve the ranges of a draft, or return None and reserve nothing; ``present`` artefacts are loaded."""
        artefacts = self._specs[name].artefacts
        offsets = _place_all(self._map, artefacts)
        if offsets is None:
            return None
        self._held.add(name)
        return tuple(
            Placement(artefact=a.name, offset=offset, nbytes=a.nbytes, present=a.name in present)
            for a, offset in zip(artefacts, offsets, strict=True)
        )

    def release(self, name: str) -> int:
        """Give back the ranges of a draft; return the bytes that became free. Raises KeyError if it holds none."""
        self._held.remove(name)
        return sum(self._map.release(artefact.name) for artefact in self._specs[name].artefacts)

    def _artefacts(self, names: Iterable[str]) -> list[Artefact]:
        return [artefact for name in names for artefact in self._specs[name].artefacts]


def _place_all(arena: ArenaMap, artefacts: Sequence[Artefact]) -> list[int] | None:
    offsets: list[int] = []
    for artefact in artefacts:
        offset = arena.place(artefact.name, artefact.nbytes)
        if offset is None:
            for placed in artefacts[: len(offsets)]:
                arena.release(placed.name)
            return None
        offsets.append(offset)
    return offsets


def _check(specs: Sequence[DraftSpec]) -> None:
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ConfigError(f"two drafts are named {spec.name!r}; give each draft a name of its own")
        seen.add(spec.name)
        if not spec.artefacts or len({a.name for a in spec.artefacts}) != len(spec.artefacts):
            raise ConfigError(f"draft {spec.name!r} must have at least one artefact, and each only once")
        for artefact in spec.artefacts:
            if artefact.nbytes < 1 or sizes.setdefault(artefact.name, artefact.nbytes) != artefact.nbytes:
                raise ConfigError(
                    f"artefact {artefact.name!r} of draft {spec.name!r} has {artefact.nbytes} bytes; it must have at"
                    f" least 1 and the same size in every draft that shares it"
                )
