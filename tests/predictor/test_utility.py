"""If these fail, drafts are labelled by something else than the tokens that they would really bring."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.predictor.utility import UtilityParams, utility
from memspec_actors.protocols.traces import TraceRecord

PARAMS = UtilityParams(interval=2, horizon=3, discount=0.5, target_horizon=4, target_discount=0.7, temperature=0.5)


def _record(agrees: dict[str, list[bool]], k: int = 3) -> TraceRecord:
    length = len(next(iter(agrees.values())))
    accepted = {name: accepted_runs(row, k) for name, row in agrees.items()}
    entropies = dict.fromkeys(agrees, (0.0,) * length)
    return TraceRecord(prompt_ids=(1,), output_ids=tuple(range(length)), accepted=accepted, entropies=entropies)


def _decode(runs: tuple[int, ...], position: int, iterations: int) -> tuple[int, float]:
    """Decode literally: where the text ends up and the tokens per iteration."""
    start, used = position, 0
    while used < iterations and position < len(runs):
        position = min(position + runs[position] + 1, len(runs))
        used += 1
    return position, (position - start) / max(used, 1)


def _expected(record: TraceRecord, position: int, params: UtilityParams) -> tuple[list[float], list[float]]:
    rows = list(record.accepted.values())
    value, target = [0.0] * len(rows), [0.0] * len(rows)
    weights = target_weights = 0.0
    for step in range(max(params.horizon, params.target_horizon)):
        if position >= len(record.output_ids):
            break
        outcomes = [_decode(runs, position, params.interval) for runs in rows]
        powers = [exp(rate / params.temperature) for _, rate in outcomes]
        for index, (_, rate) in enumerate(outcomes):
            if step < params.horizon:
                value[index] += params.discount**step * rate
            if step < params.target_horizon:
                target[index] += params.target_discount**step * powers[index] / sum(powers)
        weights += params.discount**step * (step < params.horizon)
        target_weights += params.target_discount**step * (step < params.target_horizon)
        position = max(end for end, _ in outcomes)
    return [v / weights for v in value], [t / target_weights for t in target]


@given(
    agrees=st.integers(1, 25).flatmap(
        lambda n: st.fixed_dictionaries({d: st.lists(st.booleans(), min_size=n, max_size=n) for d in "abc"})
    )
)
def test_utility_equals_literal_decoding(agrees: dict[str, list[bool]]) -> None:
    record = _record(agrees)
    worth = utility(record, PARAMS)
    for position in range(len(record.output_ids)):
        value, target = _expected(record, position, PARAMS)
        assert worth.value[:, position].tolist() == pytest.approx(value)
        assert worth.target[:, position].tolist() == pytest.approx(target)
        assert worth.labels(position) == {i for i, v in enumerate(value) if v >= max(value) - 1e-9}


def test_scheduling_points_follow_the_best_draft() -> None:
    """Intervals of two iterations with a draft of three accepted tokens each: every eight tokens."""
    record = _record({"a": [True] * 20, "b": [False] * 20})
    assert utility(record, PARAMS).scheduling_points() == [1, 9, 17]


def test_current_then_next_draft_get_most_of_the_target() -> None:
    """Long before the text turns, the draft of what comes next must already be second."""
    phases = "a" * 60 + "c" * 30 + "b" * 30
    record = _record({d: [phase == d for phase in phases] for d in "abc"})
    target = utility(record, UtilityParams()).target
    for position, order in ((1, [0, 2, 1]), (40, [0, 2, 1]), (64, [2, 1, 0])):
        assert target[:, position].argsort()[::-1].tolist() == order
