"""What is measured in turns is compared within a round."""

from functools import partial

from memspec_actors.bench.rounds import in_turns, ratio


def test_variants_take_turns_and_each_begins_as_often() -> None:
    """One that always came second would pay for what the first left behind."""
    order: list[str] = []

    def measured(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = in_turns(3, {name: partial(measured, name) for name in "ab"})
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1.0, 4.0, 5.0], "b": [2.0, 3.0, 6.0]}


def test_ratios_are_those_of_a_round() -> None:
    """A machine that grows slower all the while would be taken for a difference."""
    assert ratio([1.0, 10.0, 200.0], [2.0, 20.0, 100.0]) == {"median": 0.5, "least": 0.5, "largest": 2.0}
