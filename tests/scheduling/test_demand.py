"""If these fail, memory fills with drafts that nobody wants, or a draft that is wanted never comes."""

from collections.abc import Sequence

from memspec_actors.scheduling.backoff import Backoff, Quarantine
from memspec_actors.scheduling.demand import Demand

SIZES = {"general": 1, "code": 1, "math": 1, "law": 2}
BUDGET = 3


def demand(capacity: int = 2, quarantine: Quarantine | None = None) -> Demand:
    def could_hold(names: Sequence[str]) -> bool:
        return sum(SIZES[name] for name in names) <= BUDGET

    return Demand(tuple(SIZES), capacity, could_hold, quarantine or Quarantine(Backoff()))


def rank(wants: Demand, *order: str, depth: int | None = None) -> None:
    wants.rank(order, [1.0 / (1 + i) for i in range(len(order))], depth)


def test_the_best_of_a_ranking_are_wanted_as_far_as_there_is_room() -> None:
    """Bytes bind before K where they are scarcer: what does not fit is passed over."""
    wants = demand(capacity=3)
    rank(wants, "law", "code", "math", "general")
    assert wants.wanted() == ("law", "code")
    rank(wants, "law", "code", depth=1)
    assert wants.wanted() == ("law",)


def test_what_is_asked_for_comes_before_what_is_ranked() -> None:
    """Else a pin is worth nothing; a policy that wants one draft gets that one beside it."""
    wants = demand(capacity=2)
    wants.ask("pin", "math")
    rank(wants, "code", "general", depth=1)
    assert wants.wanted() == ("math", "code")


def test_a_ranking_is_void_once_its_request_is_over() -> None:
    """Else drafts are loaded for a text that nobody writes any more."""
    wants = demand()
    rank(wants, "code", "math")
    wants.serve(None)
    assert wants.wanted() == ()


def test_quarantined_and_unloaded_drafts_leave_their_room_to_the_next_best() -> None:
    """Else a broken draft keeps the ones behind it out; an unload lasts until the next request."""
    quarantine = Quarantine(Backoff())
    wants = demand(quarantine=quarantine)
    quarantine.add("code", "broken", 0.0)
    wants.ask("unload", "math")
    rank(wants, "code", "math", "general")
    assert wants.wanted() == ("general",)
    assert wants.unavailable() == ("code", "math")
    wants.serve("next")
    assert wants.unavailable() == ("code",)


def test_no_ranking_brings_in_what_has_no_room_beside_the_drafts_asked_for() -> None:
    """Else a policy that waits for its draft waits in vain."""
    wants = demand(capacity=2)
    wants.ask("pin", "law")
    assert wants.unavailable() == ()
    wants.ask("pin", "code")
    assert wants.unavailable() == ("general", "math")
    wants.ask("unpin", "code")
    wants.ask("unpin", "law")
    wants.ask("pin", "general")
    wants.ask("pin", "math")
    assert wants.unavailable() == ("code", "law")
