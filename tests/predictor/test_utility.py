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


def _near(agrees: list[list[bool]], position: int, params: UtilityParams) -> list[list[bool]]:
    start = min(position + params.lag_tokens, len(agrees[0]) - 1)
    return [row[start : start + params.near_tokens] for row in agrees]


def _following(agrees: list[list[bool]], position: int, params: UtilityParams) -> int | None:
    """Walk on from a position until another draft becomes the best one and stays it."""
    windows = [_near(agrees, each, params) for each in range(len(agrees[0]))]
    best = [max(range(len(agrees)), key=lambda draft: sum(rows[draft])) for rows in windows]
    for start in range(position + 1, len(best)):
        stay = best[start : start + params.near_tokens]
        begins = best[start] != best[start - 1]
        if begins and best[start] != best[position] and stay == [best[start]] * params.near_tokens:
            return best[start]
    return None


def _targets(agrees: list[list[bool]], position: int, params: UtilityParams) -> tuple[list[float], list[float]]:
    now = _preferences(_near(agrees, position, params), params.temperature)
    following = _following(agrees, position, params)
    return now, [float(draft == following) for draft in range(len(agrees))]


@given(
    agrees=st.integers(1, 25).flatmap(
        lambda n: st.fixed_dictionaries({d: st.lists(st.booleans(), min_size=n, max_size=n) for d in "abc"})
    )
)
def test_utility_and_targets_are_those_of_literal_decoding(agrees: dict[str, list[bool]]) -> None:
    record = _record(agrees)
    worth = utility(record, PARAMS)
    for position in range(len(record.output_ids)):
        value = _value(record, position, PARAMS)
        now, coming = _targets(list(agrees.values()), position, PARAMS)
        assert worth.value[:, position].tolist() == pytest.approx(value)
        assert worth.now[:, position].tolist() == pytest.approx(now)
        assert worth.coming[:, position].tolist() == pytest.approx(coming)
        assert worth.labels(position) == {i for i, v in enumerate(value) if v >= max(value) - 1e-9}


def test_scheduling_points_follow_the_best_draft() -> None:
    """Intervals of two iterations with a draft of three accepted tokens each: every eight tokens."""
    record = _record({"a": [True] * 20, "b": [False] * 20})
    assert utility(record, PARAMS).scheduling_points() == [1, 9, 17]


def test_next_draft_is_known_long_before_the_text_turns() -> None:
    phases = "a" * 60 + "c" * 30 + "b" * 30
    record = _record({d: [phase == d for phase in phases] for d in "abc"})
    worth = utility(record, UtilityParams())
    for position, now, coming in ((1, 0, 2), (40, 0, 2), (64, 2, 1)):
        assert worth.now[:, position].argmax() == now
        assert worth.coming[:, position].argmax() == coming
    assert worth.coming[:, 100].max() == 0, "behind the last turn there is nothing to wait for"


def test_draft_that_has_luck_for_a_while_is_not_the_next() -> None:
    """It would come into memory in the place of the one needed next, and be of no use by then."""
    phases = "a" * 20 + "b" * 12 + "a" * 8 + "c" * 30
    record = _record({d: [phase == d for phase in phases] for d in "abc"})
    assert utility(record, UtilityParams()).coming[:, 1].argmax() == 2
