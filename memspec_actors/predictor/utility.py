"""What a draft is worth at a scheduling point: exact, from a trace.

Let e(d, t) be where the text stands after N iterations with draft d from position t, and r(d, t) the tokens per
iteration on the way. Intervals begin at t_0 = t, t_{j+1} = max_d e(d, t_j): the best draft carries the text on. Utility
is discounted over the coming H intervals (those that begin before the text ends):

    U(d, t) = sum_j gamma^j r(d, t_j) / sum_j gamma^j                      label:  argmax_d U(d, t)

Which draft is best for a few iterations is partly luck, which nobody can learn. The soft target that the head is
trained on therefore goes by a(d, w), the share of the tokens of a window w at which d agrees with the text: near, from
where the text will be once a ranking has arrived, and later, where a draft that is loaded now comes to work:

    q(d, t) = (1 - lambda) softmax_d(a(d, near) / tau) + lambda softmax_d(a(d, later) / tau)

lambda falls with the part of the later window that lies beyond the end of the text. A draft that is best now gets most
of q, one that will be best soon gets most of the rest: so {current, next} rank first.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from memspec_actors.protocols.traces import TraceRecord

__all__ = ["Utility", "UtilityParams", "utility"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class UtilityParams(msgspec.Struct, frozen=True, kw_only=True):
    """Set N (iterations per interval), H (intervals looked ahead) and gamma of labels, and the soft target's windows.

    The near window begins ``lag_tokens`` ahead, and the later one where it ends; ``later_share`` is lambda.
    """

    interval: int = 4
    horizon: int = 3
    discount: float = 0.5
    lag_tokens: int = 4
    near_tokens: int = 16
    later_tokens: int = 32
    later_share: float = 0.2
    temperature: float = 0.06


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
    return Utility(value=value, target=_target(runs > 0, params), ends=ends[:, :-1])


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


def _target(agrees: NDArray[np.bool_], params: UtilityParams) -> Floats:
    """Give q, (D, L), from where each draft agrees with the text, (D, L)."""
    length = agrees.shape[1]
    near = np.minimum(np.arange(length) + params.lag_tokens, length - 1)
    later = np.minimum(near + params.near_tokens, length)
    end = np.minimum(later + params.later_tokens, length)
    share = params.later_share * (end - later) / params.later_tokens
    now, then = (_softmax(_agreement(agrees, *window) / params.temperature) for window in ((near, later), (later, end)))
    target: Floats = (1 - share) * now + share * then
    return target


def _agreement(agrees: NDArray[np.bool_], start: Ints, stop: Ints) -> Floats:
    """Give the share of tokens from ``start`` to ``stop``, (L,), at which each draft agrees; 0 where there are none."""
    counts = np.concatenate([np.zeros((len(agrees), 1)), agrees.cumsum(axis=1)], axis=1)
    shares: Floats = (counts[:, stop] - counts[:, start]) / np.maximum(stop - start, 1)
    return shares


def _softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=0))
    shares: Floats = powers / powers.sum(axis=0)
    return shares
