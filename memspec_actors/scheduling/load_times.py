"""How long loads take, counted in iterations by whoever asks for them."""

from collections.abc import Collection, Sequence

__all__ = ["LoadTimes"]


class LoadTimes:
    """Measure how many iterations pass until a draft that was asked for is resident."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._times: list[int] = []

    @property
    def mean(self) -> float:
        """The mean so far; 1 before the first load has ended."""
        return sum(self._times) / len(self._times) if self._times else 1.0

    @property
    def awaited(self) -> Collection[str]:
        """The drafts that are wanted and not resident yet."""
        return self._asked.keys()

    def see(self, wanted: Sequence[str], resident: Sequence[str], iteration: int) -> int:
        """Note what is wanted and what is resident before an iteration; a draft no longer wanted is not waited for.

        Returns how many of those awaited have come.
        """
        come = [iteration - self._asked[draft] for draft in resident if draft in self._asked]
        self._times += come
        self._asked = {draft: self._asked.get(draft, iteration) for draft in wanted if draft not in resident}
        return len(come)
