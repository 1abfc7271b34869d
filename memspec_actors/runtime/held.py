"""Hand things on a moment later, when a thread that is being given work has begun it."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["HOLD_S", "Held"]

T = TypeVar("T")

HOLD_S = 0.001  # a thread that wakes needs Python's lock for a fraction of it, to get to work that needs none


class Held(Generic[T]):
    """Hold things for ``HOLD_S``, then hand them on with ``hand_on``, in their order.

    Whoever gets a thing at once, on the event loop, holds Python's lock just as a worker thread begins what the loop
    has given it after that: the thread waits, though it could do without the lock a moment later.
    """

    def __init__(self, hand_on: Callable[[T], object]) -> None:
        self._hand_on = hand_on
        self._things: list[T] = []

    def add(self, thing: T) -> None:
        """Hand a thing on in a moment, with what is held already."""
        if not self._things:
            asyncio.get_running_loop().call_later(HOLD_S, self.release)
        self._things.append(thing)

    def release(self) -> None:
        """Hand on now whatever is held."""
        things, self._things = self._things, []
        for thing in things:
            self._hand_on(thing)
