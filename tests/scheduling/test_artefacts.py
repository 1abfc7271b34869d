"""Which drafts lie where in the arena, and what they cost together."""

import pytest

from memspec_actors.errors import ConfigError
from memspec_actors.scheduling.artefacts import Artefact, DraftArena, DraftSpec


def arena(budget: int, **drafts: dict[str, int]) -> DraftArena:
    return DraftArena(
        [DraftSpec(name, tuple(Artefact(a, n) for a, n in parts.items())) for name, parts in drafts.items()], budget
    )


def test_a_draft_is_placed_as_a_whole_or_not_at_all() -> None:
    """An adapter without its base would sit in memory for nothing and never be given back."""
    memory = arena(256, big={"x": 128, "y": 192}, small={"z": 256})
    assert memory.place("big", present=()) is None
    assert memory.used == 0
    assert memory.place("small", present=()) is not None


def test_placements_say_where_and_what_is_there_already() -> None:
    """The Loader would read a shared base a second time, over one that decodes."""
    memory = arena(512, a={"base": 200, "adapter a": 64}, b={"base": 200, "adapter b": 64})
    first = memory.place("a", present=())
    second = memory.place("b", present={"base", "adapter a"})
    assert first is not None
    assert second is not None
    assert [(p.artefact, p.nbytes, p.present) for p in first] == [("base", 200, False), ("adapter a", 64, False)]
    assert [(p.artefact, p.nbytes, p.present) for p in second] == [("base", 200, True), ("adapter b", 64, False)]
    assert second[0].offset == first[0].offset
    assert memory.used == memory.nbytes(["a", "b"]) == 200 + 64 + 64
    assert memory.release("a") == 64
    assert memory.release("b") == 264


def test_what_would_fit_is_found_without_moving_anything() -> None:
    """Enough bytes in two gaps must not pass for one gap; the trial must leave the arena as it was."""
    memory = arena(384, a={"a": 128}, b={"b": 128}, c={"c": 128}, wide={"w": 256})
    for name in "abc":
        memory.place(name, present=())
    assert memory.would_hold(["a", "wide"])
    assert not memory.would_hold(["b", "wide"])
    assert memory.could_hold(["b", "wide"])
    assert not memory.could_hold(["a", "b", "wide"])
    assert memory.used == 384


@pytest.mark.parametrize(
    ("specs", "budget", "message"),
    [
        ([DraftSpec("a", (Artefact("x", 1),)), DraftSpec("a", (Artefact("y", 1),))], 9, "two drafts are named 'a'"),
        ([DraftSpec("a", ())], 9, "at least one artefact"),
        ([DraftSpec("a", (Artefact("x", 1), Artefact("x", 1)))], 9, "each only once"),
        ([DraftSpec("a", (Artefact("x", 0),))], 9, "has 0 bytes"),
        ([DraftSpec("a", (Artefact("x", 1),)), DraftSpec("b", (Artefact("x", 2),))], 9, "the same size"),
        ([], 0, "budget is 0 bytes"),
    ],
)
def test_impossible_specs_are_refused(specs: list[DraftSpec], budget: int, message: str) -> None:
    """A wrong configuration has to be told at the start, by name, not when the draft is first wanted."""
    with pytest.raises(ConfigError, match=message):
        DraftArena(specs, budget)
