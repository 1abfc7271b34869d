"""What people ask of the cache beside the ranking: to load a draft, to keep one, to let one go."""

from collections.abc import Callable, Sequence

from memspec_actors.errors import InvalidRequest

__all__ = ["Wishes"]


class Wishes:
    """Remember which drafts are to be loaded before all ranked ones: pinned ones for good, others until a ranking."""

    def __init__(self) -> None:
        self.pinned: tuple[str, ...] = ()
        self._once: tuple[str, ...] = ()

    def load(self, name: str) -> None:
        """Want a draft until the next ranking, before those wanted so earlier."""
        self._once = (name, *(each for each in self._once if each != name))

    def pin(self, name: str, capacity: int, fits: Callable[[Sequence[str]], bool]) -> None:
        """Want a draft for good. Raises InvalidRequest if the pinned drafts have no room together."""
        pinned = self.pinned if name in self.pinned else (*self.pinned, name)
        if len(pinned) > capacity or not fits(pinned):
            room = f"there is room for {capacity} drafts" if len(pinned) > capacity else "their bytes exceed the budget"
            raise InvalidRequest(f"draft {name!r} cannot be pinned beside {', '.join(self.pinned) or 'none'}: {room}")
        self.pinned = pinned

    def unpin(self, name: str) -> None:
        self.pinned = tuple(each for each in self.pinned if each != name)

    def drop(self, name: str) -> None:
        """Want a draft no more."""
        self.unpin(name)
        self._once = tuple(each for each in self._once if each != name)

    def ranked(self) -> None:
        """Note that a new ranking has come."""
        self._once = ()

    def order(self, ranking: Sequence[str]) -> list[str]:
        """Return all that is wanted, most wanted first."""
        return list(dict.fromkeys((*self.pinned, *self._once, *ranking)))
