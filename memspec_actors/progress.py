"""How long work tells how far it is."""

from collections.abc import Callable

__all__ = ["Progress"]

#: Hears (what is being done, how much is done, how much there is).
Progress = Callable[[str, int, int], None]
