"""Find stop strings in text that comes in pieces, holding back what may become one."""

from collections.abc import Sequence

__all__ = ["StopStrings"]


class StopStrings:
    """Pass text on until a stop string is complete; with ``include`` the stop string itself is passed on too.

    A stop string that is complete after an earlier piece wins; of two that are complete after the same piece the one
    that starts first, of two that start together the shorter.
    """

    def __init__(self, stop: Sequence[str], *, include: bool) -> None:
        self._stop = tuple(stop)
        self._include = include
        self._held = ""
        self.found = False

    def feed(self, piece: str) -> str:
        """Return the text that is certain after ``piece``; after a match nothing more may be fed."""
        if not self._stop:
            return piece
        text = self._held + piece
        match = self._first_match(text)
        if match is not None:
            start, length = match
            self.found, self._held = True, ""
            return text[: start + length] if self._include else text[:start]
        num_held = self._num_held(text)
        self._held = text[len(text) - num_held :]
        return text[: len(text) - num_held]

    def flush(self) -> str:
        """Return what was held back: no more text comes."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, int] | None:
        starts = ((text.find(stop), len(stop)) for stop in self._stop)
        return min((match for match in starts if match[0] >= 0), default=None)

    def _num_held(self, text: str) -> int:
        """Return the length of the longest end of ``text`` that begins a stop string."""
        longest = min(len(text), max(map(len, self._stop)) - 1)
        for length in range(longest, 0, -1):
            end = text[len(text) - length :]
            if any(stop.startswith(end) for stop in self._stop):
                return length
        return 0
