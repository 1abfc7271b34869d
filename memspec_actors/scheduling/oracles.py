"""Oracles: what could be reached by one who knows the text, computed from its trace.

Decode time is the sum of the times of the iterations after the prompt's encoding. An iteration at position t that
drafts n tokens with draft d takes ``iteration_s[n]`` and adds min(run of d at t, n) + 1 tokens; n is the draft length
k, less where the text may not become that long or the draft cannot read so far. The first token comes out of the
prompt's encoding, during which loads go on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memspec_actors.protocols.traces import Plan, PlanStep, TraceRecord
from memspec_actors.scheduling.cache_machine import Cache, CacheMachine, Edge, Timing

__all__ = ["DynamicOracle", "Schedule", "static_oracle"]

TIE_S = 1e-9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Schedule(NamedTuple):
    """A plan, and the decode time in seconds that it takes if nothing else takes time."""

    plan: Plan
    decode_s: float


class _Steps(NamedTuple):
    """Where an iteration leads from each of L + 1 positions and how long it takes, by draft; row D is the target's.

    Position L is the end of the text: nothing moves and nothing takes time there.
    """

    after: Ints  # (D + 1, L + 1)
    cost_s: Floats  # (D + 1, L + 1)

    @classmethod
    def of(cls, record: TraceRecord, timing: Timing, limit: int) -> "_Steps":
        """Read them off a trace of a text that may have ``limit`` tokens at most."""
        end, k = len(record.output_ids), len(timing.iteration_s) - 1
        position = np.arange(end)
        iteration_s = np.array(timing.iteration_s)
        after, cost_s = [], []
        for name in (*record.accepted, None):
            runs = np.zeros(end, dtype=np.int64) if name is None else np.array(record.accepted[name], dtype=np.int64)
            reach = 0 if name is None else _draft_reach(record, name)
            drafted = np.clip(np.minimum(limit, reach) - 1 - position, 0, k)
            after.append(np.append(np.minimum(position + np.minimum(runs, drafted) + 1, end), end))
            cost_s.append(np.append(iteration_s[drafted], 0.0))
        return cls(np.array(after), np.array(cost_s))


def _draft_reach(record: TraceRecord, name: str) -> int:
    """Return up to which position a draft can draft: beyond the text, unless its context or vocabulary ends before."""
    known = sum(entropy is not None for entropy in record.entropies[name])
    return known if known < len(record.output_ids) else np.iinfo(np.int64).max


def static_oracle(record: TraceRecord, timing: Timing, limit: int) -> Schedule:
    """Plan the one draft with which the text decodes fastest if it is loaded from the start (Oracle-Static)."""
    steps = _Steps.of(record, timing, limit)
    times = [_walk(steps, [draft])[1] for draft in range(len(record.accepted))]
    best = int(np.argmin(times))
    order = (list(record.accepted)[best],)
    return Schedule(Plan(prompt_ids=record.prompt_ids, steps=(PlanStep(0, order),)), times[best])


class DynamicOracle:
    """Plan the K drafts of every interval so that decoding takes the least possible time (Oracle-Dynamic).

    Exact for the cache of `cache_machine`: among all sequences of ordered choices of K drafts, one for every interval
    of N iterations, none takes less decode time. Dynamic programming backwards over (position, cache state):

        V(t, c) = min over choices of  time of the interval from t  +  V(where it ends, cache after it);  V(L, c) = 0

    Only reachable cache states are looked at, and they are kept from text to text. Of equally fast plans one is taken
    that runs its first choices and loads little, judged interval by interval: it suffers least from small delays.
    """

    def __init__(self, timing: Timing, machine: CacheMachine) -> None:
        self._timing = timing
        self._graph = _Graph(machine)

    def plan(self, record: TraceRecord, limit: int, prefill_s: float) -> Schedule:
        """Plan one text whose prompt takes ``prefill_s`` to encode."""
        steps = _Steps.of(record, self._timing, limit)
        graph = self._graph
        state, memory = graph.begin(prefill_s), Cache()
        ways = [_compose(steps, runs) for runs in graph.runs]
        values = _values(graph, ways)
        names, position = list(record.accepted), min(1, len(record.output_ids))
        total_s = float(values[position, state])
        planned: list[PlanStep] = []
        while position < len(record.output_ids) or not planned:
            costs = [ways[way].cost_s[position] + values[ways[way].after[position], to] for way, to in graph.out[state]]
            tied = [i for i, cost in enumerate(costs) if cost <= min(costs) + TIE_S]
            best = min(tied, key=lambda i: _effort(graph.edges[state][i], memory))
            edge, (way, to) = graph.edges[state][best], graph.out[state][best]
            rest = sorted(set(range(len(names))).difference(edge.choice), key=lambda draft: draft != memory.running)
            order = tuple(names[draft] for draft in (*edge.choice, *rest))
            planned.append(PlanStep(position if planned else 0, order))
            position, state, memory = int(ways[way].after[position]), to, edge.after
        return Schedule(Plan(prompt_ids=record.prompt_ids, steps=tuple(planned)), total_s)


class _Graph:
    """Number the cache states that can be reached, and what each interval can consist of."""

    def __init__(self, machine: CacheMachine) -> None:
        self.edges: list[tuple[Edge, ...]] = []  # of each state
        self.out: list[list[tuple[int, int]]] = []  # the same as (number of the runs, state after)
        self.runs: list[tuple[int | None, ...]] = []
        self._machine = machine
        self._states: dict[Cache, int] = {}
        self._starts: dict[tuple[Edge, ...], int] = {}
        self._runs: dict[tuple[int | None, ...], int] = {}

    def begin(self, prefill_s: float) -> int:
        """Return the state of the empty cache before a prompt that takes ``prefill_s``."""
        edges = self._machine.start(prefill_s)
        if edges not in self._starts:
            self._starts[edges] = self._add(edges)
            self._complete()
        return self._starts[edges]

    def _add(self, edges: tuple[Edge, ...]) -> int:
        self.edges.append(edges)
        return len(self.edges) - 1

    def _complete(self) -> None:
        while len(self.out) < len(self.edges):
            self.out.append([(self._number(edge.runs), self._state(edge.after)) for edge in self.edges[len(self.out)]])

    def _state(self, cache: Cache) -> int:
        if cache not in self._states:
            self._states[cache] = self._add(self._machine.edges(cache))
        return self._states[cache]

    def _number(self, runs: tuple[int | None, ...]) -> int:
        if runs not in self._runs:
            self._runs[runs] = len(self.runs)
            self.runs.append(runs)
        return self._runs[runs]


def _compose(steps: _Steps, runs: Sequence[int | None]) -> _Steps:
    """Give where the iterations of an interval lead together, and how long they take; both (L + 1,)."""
    position = np.arange(steps.after.shape[1])
    total_s = np.zeros(len(position))
    for draft in runs:
        row = -1 if draft is None else draft
        total_s = total_s + steps.cost_s[row, position]
        position = steps.after[row, position]
    return _Steps(position, total_s)


def _values(graph: _Graph, ways: Sequence[_Steps]) -> Floats:
    """Give V, (L + 1, number of cache states)."""
    way = np.array([way for out in graph.out for way, _ in out])
    to = np.array([to for out in graph.out for _, to in out])
    starts = np.cumsum([0, *(len(out) for out in graph.out[:-1])])
    after = np.array([each.after for each in ways]).T.copy()  # (L + 1, W)
    cost_s = np.array([each.cost_s for each in ways]).T.copy()
    values = np.zeros((len(after), len(graph.out)))
    for position in reversed(range(len(after) - 1)):
        costs = cost_s[position, way] + values[after[position, way], to]
        values[position] = np.minimum.reduceat(costs, starts)
    return values


def _walk(steps: _Steps, drafts: Sequence[int]) -> tuple[int, float]:
    """Run the drafts in turn, from the first token to the end; return the iterations and the time."""
    end = steps.after.shape[1] - 1
    position, iterations, total_s = min(1, end), 0, 0.0
    while position < end:
        draft = drafts[iterations % len(drafts)]
        total_s += float(steps.cost_s[draft, position])
        position = int(steps.after[draft, position])
        iterations += 1
    return iterations, total_s


def _effort(edge: Edge, cache: Cache) -> tuple[int, int]:
    """Count the iterations of an interval without its first choice, and the chosen drafts that are not in memory."""
    present = (*cache.ready, *cache.loading)
    return sum(run != edge.choice[0] for run in edge.runs), sum(draft not in present for draft in edge.choice)
