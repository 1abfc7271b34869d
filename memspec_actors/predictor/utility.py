"""What a draft is worth at a scheduling point: exact, from a trace.

Let e(d, t) be where the text stands after N iterations with draft d from position t, and r(d, t) the tokens per
iteration on the way. Intervals begin at t_0 = t, t_{j+1} = max_d e(d, t_j): the best draft carries the text on. Utility
is discounted over the coming H intervals (those that begin before the text ends):

    U(d, t) = sum_j gamma^j r(d, t_j) / sum_j gamma^j                      label:  argmax_d U(d, t)

Which draft is best for a few iterations is partly luck, which nobody can learn. The soft targets that the head is
trained on therefore go by a(d, t), the share of the tokens of a window at which d agrees with the text; the window
begins where the text will be once a ranking that is made at t has arrived. b(t) = argmax_d a(d, t) is the draft to work
with, and n(t) the one to have in memory beside it: the next other draft that becomes b and stays it for the length of a
window, however far ahead. A draft that has luck in between is not worth the place.

    now(d, t) = softmax_d(a(d, t) / tau)          coming(d, t) = [d = n(t)]; nothing is learned where none comes
"""

import itertools

import msgspec
import numpy as np
from numpy.typing import NDArray

from memspec_actors.protocols.traces import TraceRecord

__all__ = ["Utility", "UtilityParams", "utility"]

NONE = -1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class UtilityParams(msgspec.Struct, frozen=True, kw_only=True):
    """Set N (iterations per interval), H (intervals looked ahead) and gamma of labels, and what soft targets go by.

    Their windows of ``near_tokens`` begin ``lag_tokens`` ahead; ``temperature`` is tau.
    """

    interval: int = 4
    horizon: int = 3
    discount: float = 0.5
    lag_tokens: int = 2
    near_tokens: int = 24
    temperature: float = 0.04


class Utility(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the utility of every draft at every position; D drafts, L positions."""

    value: Floats  # (D, L): U
    now: Floats  # (D, L): columns sum to 1
    coming: Floats  # (D, L): columns sum to 1, or are 0 where no other draft comes
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
    now, coming = _targets(runs > 0, params)
    return Utility(value=value, now=now, coming=coming, ends=ends[:, :-1])


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


def _targets(agrees: NDArray[np.bool_], params: UtilityParams) -> tuple[Floats, Floats]:
    """Give ``now`` and ``coming``, both (D, L), from where each draft agrees with the text, (D, L)."""
    length = agrees.shape[1]
    start = np.minimum(np.arange(length) + params.lag_tokens, length - 1)
    near = _agreement(agrees, start, np.minimum(start + params.near_tokens, length))
    now = _softmax(near / params.temperature)
    following = _following(near.argmax(axis=0), params.near_tokens)
    coming: Floats = (np.arange(len(agrees))[:, None] == following).astype(float)
    return now, coming


def _following(best: Ints, hold: int) -> Ints:
    """Give n, (L,): the next other draft that stays ``best`` for ``hold`` positions, or NONE."""
    following = np.full(len(best), NONE)
    borders = [0, *np.flatnonzero(np.diff(best)) + 1, len(best)]
    later: list[int] = []  # the drafts that stay so, in order
    for start, stop in reversed(list(itertools.pairwise(borders))):
        draft = int(best[start])
        following[start:stop] = next((other for other in later if other != draft), NONE)
        if stop - start >= hold:
            later.insert(0, draft)
    return following


def _agreement(agrees: NDArray[np.bool_], start: Ints, stop: Ints) -> Floats:
    """Give the share of tokens from ``start`` to ``stop``, (L,), at which each draft agrees; 0 where there are none."""
    counts = np.concatenate([np.zeros((len(agrees), 1)), agrees.cumsum(axis=1)], axis=1)
    shares: Floats = (counts[:, stop] - counts[:, start]) / np.maximum(stop - start, 1)
    return shares


def _softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=0))
    shares: Floats = powers / powers.sum(axis=0)
    return shares
