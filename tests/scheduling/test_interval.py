"""If these fail, rankings come too seldom to follow a text, or cost more than they are worth."""

from hypothesis import example, given
from hypothesis import strategies as st

from memspec_actors.scheduling.interval import Interval


def ends(length: int, emitted: list[int]) -> list[int]:
    """Give the iterations before which an interval was over."""
    interval, num_tokens, found = Interval(length), 1, []
    for iteration, tokens in enumerate([*emitted, 0]):
        if interval.is_over(iteration, num_tokens):
            found.append(iteration)
            interval.begin_next(iteration, num_tokens)
        num_tokens += tokens
    assert interval.number == len(found)
    return found


@given(st.integers(1, 5), st.lists(st.integers(1, 6), max_size=30))
def test_drafts_of_five_tokens_are_scheduled_every_n_iterations(length: int, emitted: list[int]) -> None:
    """The paper's N, whatever is accepted: else figures of N would be figures of something else."""
    assert ends(length, emitted) == list(range(length, len(emitted) + 1, length))


@given(st.integers(1, 5), st.lists(st.integers(1, 40), max_size=30))
@example(2, [11, 1])
@example(2, [12, 1])
def test_long_drafts_end_an_interval_once_it_has_given_as_many_tokens(length: int, emitted: list[int]) -> None:
    expected, since = [], []
    for iteration, tokens in enumerate(emitted, start=1):
        since.append(tokens)
        if len(since) == length or sum(since) >= 6 * length:
            expected.append(iteration)
            since = []
    assert ends(length, emitted) == expected
