"""If these fail, the second place in memory goes to another draft than the one that is needed next."""

import pytest

from memspec_actors.predictor.head import ranked


def test_draft_at_work_comes_first_and_the_next_one_second() -> None:
    order, scores = ranked(now=(0.02, 0.7, 0.08, 0.2), coming=(0.1, 0.05, 0.8, 0.05))
    assert order == [1, 2, 3, 0]
    assert scores == pytest.approx([0.032, 0.6025, 0.188, 0.1775])


def test_where_no_draft_stands_out_the_next_one_is_put_to_work() -> None:
    """Each turn of luck would otherwise cost a load, and the next draft its place."""
    order, _ = ranked(now=(0.28, 0.22, 0.27, 0.23), coming=(0.05, 0.05, 0.1, 0.8))
    assert order == [3, 0, 2, 1]
