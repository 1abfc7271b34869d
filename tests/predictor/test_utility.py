"""If these fail, drafts are labelled by something else than the tokens that they would really bring."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.predictor.utility import UtilityParams, utility
from memspec_actors.protocols.traces import TraceRecord

PARAMS = UtilityParams(
    interval=2,
    horizon=3,
    discount=0.5,
    lag_tokens=2,
    near_tokens=4,
    later_tokens=5,
    later_share=0.3,
    temperature=0.2,
)


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


def _value(record: TraceRecord, position: int, params: UtilityParams) -> list[float]:
    rows = list(record.accepted.values())
    value, weights = [0.0] * len(rows), 0.0
    for step in range(params.horizon):
        if position >= len(record.output_ids):
            break
        outcomes = [_decode(runs, position, params.interval) for runs in rows]
        for index, (_, rate) in enumerate(outcomes):
            value[index] += params.discount**step * rate
        weights += params.discount**step
        position = max(end for end, _ in outcomes)
    return [v / weights for v in value]


def _preferences(agrees: list[list[bool]], temperature: float) -> list[float]:
    powers = [exp(sum(row) / max(len(row), 1) / temperature) for row in agrees]
    return [power / sum(powers) for power in powers]


def _target(agrees: list[list[bool]], position: int, params: UtilityParams) -> list[float]:
    start = min(position + params.lag_tokens, len(agrees[0]) - 1)
    near = [row[start : start + params.near_tokens] for row in agrees]
    later = [row[start + params.near_tokens :][: params.later_tokens] for row in agrees]
    share = params.later_share * len(later[0]) / params.later_tokens
    now, then = _preferences(near, params.temperature), _preferences(later, params.temperature)
    return [(1 - share) * a + share * b for a, b in zip(now, then, strict=True)]


@given(
    agrees=st.integers(1, 25).flatmap(
        lambda n: st.fixed_dictionaries({d: st.lists(st.booleans(), min_size=n, max_size=n) for d in "abc"})
    )
)
def test_utility_and_target_are_those_of_literal_decoding(agrees: dict[str, list[bool]]) -> None:
    record = _record(agrees)
    worth = utility(record, PARAMS)
    for position in range(len(record.output_ids)):
        value, target = _value(record, position, PARAMS), _target(list(agrees.values()), position, PARAMS)
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
