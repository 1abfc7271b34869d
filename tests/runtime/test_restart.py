"""The restart decision, against its closed form."""

import pytest

from memspec_actors.runtime.restart import RestartHistory, RestartPolicy


def test_back_off_grows_exponentially_up_to_its_ceiling() -> None:
    """A crashing actor would be restarted in a tight loop, or not for minutes."""
    history = RestartHistory(RestartPolicy(max_restarts=6, backoff_s=0.1, backoff_factor=3.0, max_backoff_s=2.0))
    waits = [history.crash(0.0) for _ in range(6)]
    assert waits == pytest.approx([0.1, 0.3, 0.9, 2.0, 2.0, 2.0])
    assert history.crash(0.0) is None


def test_crashes_outside_the_window_are_forgiven() -> None:
    """An actor that crashes once an hour would stop the system after a few hours."""
    history = RestartHistory(RestartPolicy(max_restarts=1, within_s=10.0, backoff_s=0.5))
    assert [history.crash(hour * 3600.0) for hour in range(50)] == [0.5] * 50


def test_limit_counts_any_window_not_only_aligned_ones() -> None:
    """Crashes that straddle a boundary would be counted in two halves."""
    history = RestartHistory(RestartPolicy(max_restarts=2, within_s=10.0))
    assert history.crash(8.0) is not None
    assert history.crash(12.0) is not None
    assert history.crash(17.9) is None


def test_enormous_back_off_is_the_ceiling() -> None:
    """A generous limit would end in an OverflowError inside the supervisor."""
    history = RestartHistory(RestartPolicy(max_restarts=5000, backoff_factor=10.0, max_backoff_s=2.0))
    assert [history.crash(0.0) for _ in range(2000)][-1] == 2.0


@pytest.mark.parametrize("bad", [{"max_restarts": -1}, {"backoff_s": -0.1}, {"backoff_factor": 0.5}])
def test_senseless_policy_is_refused_by_name(bad: dict[str, float]) -> None:
    """A typing mistake would surface as odd behaviour after the first crash."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        RestartPolicy(**bad)  # type: ignore[arg-type]
