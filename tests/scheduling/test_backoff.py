"""How long a draft that could not be loaded is left alone."""

import pytest

from memspec_actors.scheduling.backoff import Backoff, Quarantine


def test_delays_grow_up_to_the_maximum_however_many_failures() -> None:
    """A draft that never loads would be tried in a tight loop, or overflow after many failures."""
    backoff = Backoff(first_s=1.0, factor=2.0, max_s=60.0)
    assert [backoff.delay_s(n) for n in (1, 2, 3, 6, 7, 10_000)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0]


def test_a_quarantine_ends_at_its_time_and_not_before() -> None:
    """Too early is a hot loop, never is a draft lost for good."""
    quarantine = Quarantine(Backoff(first_s=2.0))
    assert quarantine.add("a", "file is gone", now=10.0) == 2.0
    assert quarantine.next_expiry() == 12.0
    quarantine.expire(11.999)
    assert "a" in quarantine
    assert quarantine.reasons == {"a": "file is gone"}
    assert quarantine.holds("a", 11.999)
    assert not quarantine.holds("a", 12.0)
    quarantine.expire(12.0)
    assert "a" not in quarantine
    assert quarantine.next_expiry() is None


@pytest.mark.parametrize(("loaded_between", "delay_s"), [(False, 2.0), (True, 1.0)])
def test_only_failures_in_a_row_add_up(loaded_between: bool, delay_s: float) -> None:
    """One failure a day would in the end keep a draft away for the longest back-off."""
    quarantine = Quarantine(Backoff())
    quarantine.add("a", "x", now=0.0)
    if loaded_between:
        quarantine.forgive("a")
    assert quarantine.add("a", "x", now=5.0) == delay_s


def test_for_ever_is_no_reason_to_wake_up() -> None:
    """A timer for the end of time."""
    quarantine = Quarantine(Backoff())
    quarantine.add_for_ever("a", "too large")
    quarantine.expire(1e18)
    assert "a" in quarantine
    assert quarantine.next_expiry() is None
