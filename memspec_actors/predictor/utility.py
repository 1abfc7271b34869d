"""What a draft is worth at a scheduling point: exact, from a trace.

Let e(d, t) be where the text stands after N iterations with draft d from position t, and r(d, t) the tokens per
iteration on the way. Intervals begin at t_0 = t, t_{j+1} = max_d e(d, t_j): the best draft carries the text on. Utility
is discounted over the coming H intervals (those that begin before the text ends):

    U(d, t) = sum_j gamma^j r(d, t_j) / sum_j gamma^j                      label:  argmax_d U(d, t)
    q(d, t) = sum_j gamma^j softmax_d(r(d, t_j) / tau) / sum_j gamma^j     soft target that the head is trained on

A draft that is best now gets most of q, one that will be best soon gets most of the rest: so {current, next} rank
first.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from memspec_actors.protocols.traces import TraceRecord

__all__ = ["Utility", "UtilityParams", "utility"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class UtilityParams(msgspec.Struct, frozen=True, kw_only=True):
    """Set N (iterations per interval), H (intervals looked ahead), gamma (label, soft target) and tau (tokens)."""

    interval: int = 4
    horizon: int = 3
    discount: float = 0.5
    target_horizon: int = 6
    target_discount: float = 0.5
    temperature: float = 0.3


class Utility(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the utility of every draft at every position; D drafts, L positions."""

    value: Floats  # (D, L): U
    target: Floats  # (D, L): q, columns sum to 1
    ends: Ints  # (D, L): e

    def scheduling_points(self, start: int = 1) -> list[int]:
        """List the positions at which intervals begin when the best draft runs in each; prefill gives token 0."""
        points = []
        best = self.ends.max(axis=0)
        while start < len(best):
            points.append(start)
            start = int(best[start])
        return points

    def labels(self, position: int) -> set[int]:
        """Give the drafts of highest utility at a position: one, or several that are exactly as good."""
        column = self.value[:, position]
        return set(np.flatnonzero(column >= column.max() - 1e-9).tolist())


def utility(record: TraceRecord, params: UtilityParams | None = None) -> Utility:
    """Compute utilities of all drafts (in the record's order) at every position of its text."""
    params = params or UtilityParams()
    runs = np.array(list(record.accepted.values()), dtype=np.int64).reshape(len(record.accepted), -1)
    ends, rates = _intervals(runs, params.interval)
    best = ends.max(axis=0)
    value = _discounted(rates, best, params.horizon, params.discount)
    shares = _softmax(rates / params.temperature)
    target = _discounted(shares, best, params.target_horizon, params.target_discount)
    return Utility(value=value, target=target, ends=ends[:, :-1])


def _intervals(runs: Ints, num_iterations: int) -> tuple[Ints, Floats]:
    """Give (D, L + 1) arrays: where N iterations end, and tokens per iteration used; column L is the text's end."""
    num_drafts, length = runs.shape
    after = np.minimum(np.arange(length) + runs + 1, length)
    after = np.concatenate([after, np.full((num_drafts, 1), length)], axis=1)
    ends = np.tile(np.arange(length + 1), (num_drafts, 1))
    used = np.zeros_like(ends)
    for _ in range(num_iterations):
        used += ends < length
        ends = np.take_along_axis(after, ends, axis=1)
    return ends, (ends - np.arange(length + 1)) / np.maximum(used, 1)


def _discounted(figures: Floats, best: Ints, horizon: int, discount: float) -> Floats:
    """Average (D, L + 1) figures over the intervals that begin at each position; gives (D, L)."""
    length = len(best) - 1
    position = np.arange(length + 1)
    total, weights = np.zeros_like(figures), np.zeros(length + 1)
    for step in range(horizon):
        weight = discount**step * (position < length)
        total += weight * figures[:, position]
        weights += weight
        position = best[position]
    averaged: Floats = total[:, :length] / weights[:length]
    return averaged


def _softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=0))
    shares: Floats = powers / powers.sum(axis=0)
    return shares
