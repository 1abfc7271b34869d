"""What people ask of the cache beside the ranking: to load a draft, to keep one, to let one go."""

from collections.abc import Callable, Sequence

from memspec_actors.errors import InvalidRequest

__all__ = ["Wishes"]


class Wishes:
    """Remember which drafts are to be loaded before all ranked ones: pinned ones for good, others until a ranking.

    ``unloaded`` ones are not to be loaded at all before the next request.
    """

    def __init__(self) -> None:
        self.pinned: tuple[str, ...] = ()
        self.unloaded: frozenset[str] = frozenset()
        self._once: tuple[str, ...] = ()

    def load(self, name: str) -> None:
        """Want a draft until the next ranking, before those wanted so earlier."""
        self._once = (name, *(each for each in self._once if each != name))
        self.unloaded -= {name}

    def pin(self, name: str, capacity: int, fits: Callable[[Sequence[str]], bool]) -> None:
        """Want a draft for good. Raises InvalidRequest if the pinned drafts have no room together."""
        pinned = self.pinned if name in self.pinned else (*self.pinned, name)
        if len(pinned) > capacity or not fits(pinned):
            room = f"there is room for {capacity} drafts" if len(pinned) > capacity else "their bytes exceed the budget"
            raise InvalidRequest(f"draft {name!r} cannot be pinned beside {', '.join(self.pinned) or 'none'}: {room}")
        self.pinned = pinned
        self.unloaded -= {name}

    def unpin(self, name: str) -> None:
        self.pinned = tuple(each for each in self.pinned if each != name)

    def drop(self, name: str) -> None:
        """Want a draft no more, whatever the rankings of the request at hand say."""
        self.unpin(name)
        self._once = tuple(each for each in self._once if each != name)
        self.unloaded |= {name}

    def ranked(self) -> None:
        """Note that a new ranking has come."""
        self._once = ()

    def request_changed(self) -> None:
        """Note that another request has its turn, or that one has ended."""
        self.unloaded = frozenset()

    @property
    def asked_for(self) -> list[str]:
        """What is wanted before all that is ranked, most wanted first."""
        return list(dict.fromkeys((*self.pinned, *self._once)))
