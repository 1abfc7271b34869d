"""The cache that Oracle-Dynamic is optimal for: the engine's own, with nothing taking time but iterations and loads.

At a scheduling point an ordered choice of K drafts is made, and then, as the residency protocol has it:

- it is known from the next iteration on; until then decoding goes on as before;
- the best-ranked loaded draft of the choice runs; where none is loaded, the one that ran before if it still is there,
  else the target alone;
- a draft outside the choice leaves with the next iteration boundary, the running one with the boundary after another
  has taken over;
- absent drafts are queued to be loaded, in the order of the choice, as soon as there is a place for each; they are
  loaded one at a time, first come first served;
- a load that is not wanted any more is dropped at once; one that has not begun keeps its place until its turn comes;
- a loaded draft runs from the next boundary on: it is warmed and announced at once.

Before the first interval the choice is known at once, and loads go on while the prompt is encoded. How far a load is
gets counted in ticks, by default 32 an iteration, and is rounded in favour of loading; for it every iteration that
drafts is a full one. Decode time is not rounded.
"""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

__all__ = ["Cache", "CacheMachine", "Edge", "Timing"]

TICKS_PER_ITERATION = 32
SLACK = 1e-6  # of a tick, for sums of floating-point times


class Timing(NamedTuple):
    """Give seconds: of an iteration by the number of drafted tokens (0 to k), and of the load of each draft."""

    iteration_s: tuple[float, ...]
    load_s: tuple[float, ...]


class Cache(NamedTuple):
    """The cache at a scheduling point.

    ``ready`` drafts are loaded and announced, the first of ``loading`` needs ``left`` more ticks (``~draft`` is a load
    that was given up in the queue), and ``running`` decodes the next iteration.
    """

    ready: tuple[int, ...] = ()
    loading: tuple[int, ...] = ()
    left: int = 0
    running: int | None = None


class Edge(NamedTuple):
    """One way through an interval: the choice, which draft runs in each iteration (None: none), and the cache after."""

    choice: tuple[int, ...]
    runs: tuple[int | None, ...]
    after: Cache


class CacheMachine:
    """Play intervals of ``interval`` iterations (of ``ticks`` each) for drafts 0 to D - 1 of which ``capacity`` fit."""

    def __init__(self, timing: Timing, *, capacity: int, interval: int, ticks: int = TICKS_PER_ITERATION) -> None:
        self._full = ticks
        self._tick_s = timing.iteration_s[-1] / ticks
        self._load = tuple(math.floor(seconds / self._tick_s + SLACK) for seconds in timing.load_s)
        self._plain = self._ticks(timing.iteration_s[0])
        self._interval = interval
        self._capacity = capacity
        num_drafts = len(timing.load_s)
        self._choices = tuple(permutations(range(num_drafts), min(capacity, num_drafts)))

    def start(self, prefill_s: float) -> tuple[Edge, ...]:
        """List every way through the first interval, of an empty cache and a prompt that takes ``prefill_s``."""
        return self._ways(Cache(), self._ticks(prefill_s))

    def edges(self, cache: Cache) -> tuple[Edge, ...]:
        """List every way through the next interval, one of each kind."""
        return self._ways(cache, None)

    def _ways(self, cache: Cache, prefill: int | None) -> tuple[Edge, ...]:
        ways: dict[tuple[tuple[int | None, ...], Cache], Edge] = {}
        for choice in self._choices:
            edge = self._play(choice, cache, prefill)
            ways.setdefault((edge.runs, edge.after), edge)
        return tuple(ways.values())

    def _play(self, choice: tuple[int, ...], cache: Cache, prefill: int | None) -> Edge:
        memory = _Memory(cache, choice, self._load, self._capacity)
        if prefill is not None:
            memory.pass_time(prefill)
        runs: list[int | None] = []
        for _ in range(self._interval):
            runs.append(memory.running)
            memory.pass_time(self._plain if memory.running is None else self._full)
        return Edge(choice, tuple(runs), memory.cache())

    def _ticks(self, seconds: float) -> int:
        return math.ceil(seconds / self._tick_s - SLACK)


class _Memory:
    """A cache on its way through an interval."""

    def __init__(self, cache: Cache, choice: Sequence[int], load: Sequence[int], capacity: int) -> None:
        self.running = cache.running
        self._choice, self._load, self._capacity = choice, load, capacity
        self._ready = [draft for draft in cache.ready if draft in choice or draft == cache.running]
        self._num_leaving = len(cache.ready) - len(self._ready)
        going_on = cache.loading[:1] if cache.loading[:1] and cache.loading[0] in choice else ()
        self._left = cache.left if going_on else None  # None: the first of the queue has not begun
        self._queue = [*going_on, *(draft if draft in choice else min(draft, ~draft) for draft in cache.loading[1:])]
        present = (*self._ready, *self._queue)
        self._absent = [draft for draft in choice if draft not in present]

    def pass_time(self, ticks: int) -> None:
        """Go on to the next iteration boundary, ``ticks`` later."""
        present = self._ready + self._read(ticks)
        self._num_leaving = 0
        self._ready = [draft for draft in present if draft in self._choice or draft == self.running]
        self.running = next((draft for draft in self._choice if draft in self._ready), self.running)

    def cache(self) -> Cache:
        """Return the state in which the next choice finds the cache."""
        left = self._begin(0)
        return Cache(tuple(sorted(self._ready)), tuple(self._queue), left, self.running)

    def _read(self, ticks: int) -> list[int]:
        """Load for so long; return the drafts that this finished."""
        finished: list[int] = []
        while (left := self._begin(len(finished))) <= ticks and self._queue:
            ticks -= left
            finished.append(self._queue.pop(0))
            self._left = None
        self._left = left - ticks if self._queue else None
        return finished

    def _begin(self, num_finished: int) -> int:
        """Queue what there is a place for, and return the ticks that the first load needs; 0 if there is none."""
        while self._queue and self._queue[0] < 0:
            self._queue.pop(0)
        num_used = len(self._ready) + num_finished + self._num_leaving
        for draft in [draft for draft in self._absent if ~draft not in self._queue]:
            if num_used + len(self._queue) >= self._capacity:
                break
            self._queue.append(draft)
            self._absent.remove(draft)
        if self._left is None and self._queue:
            self._left = self._load[self._queue[0]]
        return self._left or 0
