"""If these fail, a draft is freed while somebody touches it, or one that is wanted again is loaded a second time."""

from collections.abc import Callable

import pytest

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.slot import Slot, State


@pytest.mark.parametrize(
    ("step", "ways"),
    [
        (Slot.loaded, ["LOADING-WARMING", "CANCELLING-WARMING"]),
        (Slot.warmed, ["WARMING-RESIDENT"]),
        (Slot.leave, ["LOADING-CANCELLING", "WARMING-DISCARDED", "RESIDENT-REVOKED"]),
        (Slot.stay, ["DISCARDED-WARMING", "REVOKED-RESIDENT"]),
    ],
)
def test_a_slot_goes_the_ways_that_are_drawn_and_no_others(step: Callable[[Slot], None], ways: list[str]) -> None:
    """A step that does not fit is a broken invariant, and must not make another."""
    gone = []
    for state in State:
        slot = Slot(ResidentDraft("law", 1), state)
        try:
            step(slot)
        except (AssertionError, KeyError):
            assert slot.state is state
        else:
            gone.append(f"{state.name}-{slot.state.name}")
    assert gone == ways
