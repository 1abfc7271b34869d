"""Which drafts are wanted in memory: those that somebody asks for, then the best of the newest ranking."""

from collections.abc import Callable, Sequence
from typing import get_args

from memspec_actors.errors import InvalidRequest
from memspec_actors.protocols.messages import DraftWish
from memspec_actors.scheduling.backoff import Quarantine
from memspec_actors.scheduling.wishes import Wishes
from memspec_actors.scheduling.working_set import working_set

__all__ = ["Demand"]


class Demand:
    """Weigh wishes and the ranking against room for ``capacity`` of the drafts ``names`` that ``could_hold`` admits.

    A ranking is void once its request is over. Drafts in ``quarantine`` are never wanted.
    """

    def __init__(
        self, names: Sequence[str], capacity: int, could_hold: Callable[[Sequence[str]], bool], quarantine: Quarantine
    ) -> None:
        self._names = tuple(names)
        self._capacity = capacity
        self._could_hold = could_hold
        self._quarantine = quarantine
        self._wishes = Wishes()
        self._scores: dict[str, float] = {}  # the newest ranking, best first
        self._depth: int | None = None  # how many of them are wanted in memory, at most
        self.request_id: str | None = None  # the request that is being decoded

    @property
    def ranking(self) -> tuple[str, ...]:
        """The newest ranking, best first."""
        return tuple(self._scores)

    @property
    def pinned(self) -> tuple[str, ...]:
        """The drafts that are wanted for good."""
        return self._wishes.pinned

    def score_of(self, name: str) -> float | None:
        """Return a draft's score in the newest ranking, or None if that left it out."""
        return self._scores.get(name)

    def rank(self, order: Sequence[str], scores: Sequence[float], depth: int | None) -> None:
        """Take over a ranking, best first, whose first ``depth`` are wanted (None: as many as fit).

        Raises ValueError for unknown or repeated drafts or a missing score.
        """
        if not set(order) <= set(self._names) or len(set(order)) != len(order) or len(scores) != len(order):
            raise ValueError(
                f"ranking {tuple(order)} with scores {tuple(scores)}: it must name drafts of {self._names} at most once"
                f" each, with one score each"
            )
        self._scores = dict(zip(order, scores, strict=True))
        self._depth = depth
        self._wishes.ranked()

    def serve(self, request_id: str | None) -> None:
        """Note whose text is decoded from now on (None: nobody's): what the rankings before wanted is void."""
        self.request_id = request_id
        self._depth = 0
        self._wishes.request_changed()

    def ask(self, wish: DraftWish, name: str) -> None:
        """Take a wish; a quarantined draft that is to be loaded is tried again.

        Raises InvalidRequest for an unknown wish or draft, one that never fits, or pins that have no room together.
        """
        if wish not in get_args(DraftWish):
            raise InvalidRequest(f"a draft can be asked to {', '.join(get_args(DraftWish))}, not {wish!r}")
        if name not in self._names:
            raise InvalidRequest(f"there is no draft {name!r}; drafts are {', '.join(self._names)}")
        if wish in ("load", "pin") and not self._could_hold([name]):
            raise InvalidRequest(self._quarantine.reasons[name])
        match wish:
            case "load":
                self._wishes.load(name)
            case "pin":
                self._wishes.pin(name, self._capacity, self._could_hold)
            case "unpin":
                self._wishes.unpin(name)
            case "unload":
                self._wishes.drop(name)
        if wish in ("load", "pin"):
            self._quarantine.release(name)

    def wanted(self) -> tuple[str, ...]:
        """Return the drafts that should be in memory, most wanted first."""
        asked_for = self._asked_for()
        ranked = [name for name in self._scores if name not in asked_for and not self._is_barred(name)]
        depth = len(ranked) if self._depth is None else self._depth
        capacity = min(self._capacity, len(asked_for) + depth)
        return working_set([*asked_for, *ranked], capacity, self._could_hold)

    def unavailable(self) -> tuple[str, ...]:
        """Return the drafts that no ranking brings into memory: barred, or without room beside those asked for."""
        asked_for = self._asked_for()
        return tuple(name for name in self._names if self._is_barred(name) or self._is_crowded_out(name, asked_for))

    def _asked_for(self) -> tuple[str, ...]:
        names = [name for name in self._wishes.asked_for if not self._is_barred(name)]
        return working_set(names, self._capacity, self._could_hold)

    def _is_barred(self, name: str) -> bool:
        return name in self._quarantine or name in self._wishes.unloaded

    def _is_crowded_out(self, name: str, asked_for: tuple[str, ...]) -> bool:
        if name in asked_for:
            return False
        return len(asked_for) == self._capacity or not self._could_hold([*asked_for, name])
