"""Which draft decodes now."""

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.pick import desired, pick_draft

NAMES = "abcdef"


@given(st.permutations(NAMES), st.integers(0, 6), st.sets(st.sampled_from(NAMES)), st.integers(1, 9))
def test_the_best_scored_resident_draft_is_picked(
    ranked: list[str], num_ranked: int, resident: set[str], generation: int
) -> None:
    """Decoding would run a worse draft than it has, or one that is not there."""
    order = ranked[:num_ranked]
    scores = {name: 1.0 / (1 + position) for position, name in enumerate(order)}
    usable = [ResidentDraft(name, generation) for name in sorted(resident)]
    expected = max((draft for draft in usable if draft.name in scores), key=lambda d: scores[d.name], default=None)
    assert pick_draft(order, usable) == expected


def test_residents_outside_the_ranking_are_not_used() -> None:
    """A static policy would decode with whatever an earlier request had left in memory."""
    assert pick_draft(["code"], [ResidentDraft("law", 3)]) is None


def test_the_desired_draft_is_the_first_of_the_ranking() -> None:
    """The share of fallback execution would be wrong."""
    assert desired(["a", "b"]) == "a"
    assert desired([]) is None
