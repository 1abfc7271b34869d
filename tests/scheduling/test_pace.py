"""If the pace is misread, memspec+ ranks anew at every iteration of a hard text, or sleeps through a turn."""

from memspec_actors.scheduling.pace import Pace


def news(*iterations: tuple[int, float]) -> list[bool]:
    pace = Pace()
    return [pace.falls_short(*each) for each in iterations]


def test_two_slow_iterations_in_a_row_are_news_and_one_is_not() -> None:
    fast, slow = (6, 10.0), (1, 10.0)
    assert news(*[fast] * 4, slow, fast, slow, slow) == [False] * 7 + [True]


def test_a_text_that_has_always_come_slowly_does_not_fall_short() -> None:
    """Where no draft does well every iteration would be news, and ranking anew would cost more than it brings."""
    assert not any(news(*[(2, 10.0), (1, 10.0), (3, 10.0)] * 10))


def test_long_iterations_that_give_little_fall_short() -> None:
    """Under rules that adapt the length, tokens per iteration tell nothing of speed."""
    assert news(*[(4, 10.0)] * 10, (4, 40.0), (4, 40.0))[-1]
    assert not any(news(*[(8, 40.0)] * 4, (2, 10.0), (2, 10.0)))
