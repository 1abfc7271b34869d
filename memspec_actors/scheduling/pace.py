"""How fast a text comes, and when it comes slower than it did."""

from dataclasses import dataclass

__all__ = ["Pace"]


@dataclass(slots=True)
class Pace:
    """Compare iterations with those before, by tokens per time, whatever their lengths.

    One slow iteration is no news: two in a row are judged together.
    """

    _num_tokens: int = 0
    _us: float = 0.0
    _last: tuple[int, float] = (0, 0.0)  # tokens and time of the iteration before

    def falls_short(self, num_tokens: int, us: float) -> bool:
        """Take in an iteration with a draft; tell whether it and the last came at less than half the pace of all."""
        self._num_tokens += num_tokens
        self._us += us
        (last_tokens, last_us), self._last = self._last, (num_tokens, us)
        return 2 * (num_tokens + last_tokens) * self._us < self._num_tokens * (us + last_us)
