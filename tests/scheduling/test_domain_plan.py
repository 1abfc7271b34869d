"""If these fail, what is called the ceiling under adaptive drafts is none: it loads late, or follows lucky tokens."""

import random

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.scheduling.domain_plan import AHEAD, WINDOW, foreseeing_plan

NAMES = ("a", "b", "c")


def _record(agrees: dict[str, list[bool]]) -> TraceRecord:
    length = len(agrees["a"])
    return TraceRecord(
        prompt_ids=(1,),
        output_ids=tuple(range(length)),
        accepted={name: accepted_runs(values, 5) for name, values in agrees.items()},
        entropies=dict.fromkeys(agrees, (0.0,) * length),
    )


def test_the_second_place_is_for_the_domain_that_comes_next() -> None:
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
    orders = [step.order for step in foreseeing_plan(record).steps]
    assert [step.position for step in foreseeing_plan(record).steps] == list(range(length))
    turns = next(i for i, order in enumerate(orders) if order[0] == "c")
    assert turn - WINDOW < turns < turn
    assert orders[: turns - AHEAD] == [("a", "b", "c")] * (turns - AHEAD)
    assert {order[:2] for order in orders[turns - AHEAD : turns]} == {("a", "c")}
    assert {order[0] for order in orders[turns:]} == {"c"}


@given(st.data())
def test_orders_are_those_of_a_plain_count(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 90))
    agrees = {name: data.draw(st.lists(st.booleans(), min_size=length, max_size=length)) for name in NAMES}

    def by_fit(position: int) -> list[str]:
        return sorted(NAMES, key=lambda name: -sum(agrees[name][position : position + WINDOW]))

    for step in foreseeing_plan(_record(agrees)).steps:
        coming = range(step.position, min(step.position + AHEAD + 1, length))
        expected = [*(by_fit(position)[0] for position in coming), *by_fit(step.position)]
        assert list(step.order) == list(dict.fromkeys(expected))
