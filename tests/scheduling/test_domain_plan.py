"""If these fail, what is called the ceiling is none: it loads late, or follows lucky tokens."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.scheduling.domain_plan import ADAPTIVE_WINDOW, AHEAD, FIXED_WINDOW, domain_oracle

NAMES = ("a", "b", "c")
WINDOWS = (FIXED_WINDOW, ADAPTIVE_WINDOW)


def _record(agrees: dict[str, list[bool]]) -> TraceRecord:
    length = len(agrees["a"])
    return TraceRecord(
        prompt_ids=(1,),
        output_ids=tuple(range(length)),
        accepted={name: accepted_runs(values, 5) for name, values in agrees.items()},
        entropies=dict.fromkeys(agrees, (0.0,) * length),
    )


@pytest.mark.parametrize("window", WINDOWS)
def test_the_second_place_is_for_the_domain_that_comes_next(window: int) -> None:
    """b is the second best of the first domain, but c is what the second one needs."""
    turn, length = 120, 240
    rng = random.Random(1)
    first = [i < turn for i in range(length)]
    record = _record(
        {
            "a": first,
            "b": [each and rng.random() < 0.5 for each in first],
            "c": [not each for each in first],
        }
    )
    steps = domain_oracle(record, window).steps
    orders = [step.order for step in steps]
    assert [step.position for step in steps] == list(range(length))
    turns = next(i for i, order in enumerate(orders) if order[0] == "c")
    assert turn - window < turns < turn
    assert orders[: turns - AHEAD] == [("a", "b", "c")] * (turns - AHEAD)
    assert {order[:2] for order in orders[turns - AHEAD : turns]} == {("a", "c")}
    assert {order[0] for order in orders[turns:]} == {"c"}


def test_lucky_tokens_move_nobody() -> None:
    """b is right at a few places in a's half: one who knows only the domain does not switch for them."""
    record = _record(
        {
            "a": [i < 60 for i in range(120)],
            "b": [i >= 60 or i % 7 == 0 for i in range(120)],
            "c": [False] * 120,
        }
    )
    firsts = [step.order[0] for step in domain_oracle(record, FIXED_WINDOW).steps]
    assert firsts[:40] == ["a"] * 40
    assert firsts[60:] == ["b"] * 60


@given(st.data())
def test_orders_are_those_of_a_plain_count(data: st.DataObject) -> None:
    window = data.draw(st.sampled_from(WINDOWS))
    length = data.draw(st.integers(1, 90))
    agrees = {name: data.draw(st.lists(st.booleans(), min_size=length, max_size=length)) for name in NAMES}

    def by_fit(position: int) -> list[str]:
        return sorted(NAMES, key=lambda name: -sum(agrees[name][position : position + window]))

    for step in domain_oracle(_record(agrees), window).steps:
        coming = range(step.position, min(step.position + AHEAD + 1, length))
        expected = [*(by_fit(position)[0] for position in coming), *by_fit(step.position)]
        assert list(step.order) == list(dict.fromkeys(expected))
