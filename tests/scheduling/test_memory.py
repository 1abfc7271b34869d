"""The map of the arena, against one flag per byte."""

import random

import pytest

from memspec_actors.scheduling.memory import ArenaMap


class Bitmap:
    """The same arena as one flag per byte: slow and obvious."""

    def __init__(self, nbytes: int, alignment: int) -> None:
        self.owner: list[str | None] = [None] * nbytes
        self.alignment = alignment

    def starts(self, nbytes: int) -> list[int]:
        """Every aligned offset where this many free bytes begin."""
        last = len(self.owner) - nbytes
        return [o for o in range(0, last + 1, self.alignment) if not any(self.owner[o : o + nbytes])]

    def fill(self, offset: int, nbytes: int, key: str | None) -> None:
        self.owner[offset : offset + nbytes] = [key] * nbytes


@pytest.mark.parametrize("seed", range(60))
def test_random_use_agrees_with_a_bitmap(seed: int) -> None:
    """Overlaps, misaligned offsets, lost gaps or gaps that do not coalesce would corrupt or waste draft memory."""
    rng = random.Random(seed)
    alignment = rng.choice([1, 4, 8])
    size = rng.randint(1, 90)
    arena, bitmap = ArenaMap(size, alignment), Bitmap(size, alignment)
    placed: dict[str, tuple[int, int]] = {}
    for step in range(150):
        if placed and rng.random() < 0.45:
            key = rng.choice(sorted(placed))
            offset, nbytes = placed.pop(key)
            assert arena.release(key) == nbytes
            bitmap.fill(offset, nbytes, None)
        else:
            key, nbytes = f"k{step}", rng.randint(1, 40)
            possible = bitmap.starts(nbytes)
            where = arena.place(key, nbytes)
            assert (where is None) == (not possible)
            if where is not None:
                assert where in possible
                bitmap.fill(where, nbytes, key)
                placed[key] = (where, nbytes)
        assert arena.used == sum(owner is not None for owner in bitmap.owner)
        assert {key for key in placed if key in arena} == set(placed)


def test_the_smallest_gap_that_fits_is_used() -> None:
    """First come in the largest gap would leave no place for a large draft."""
    arena = ArenaMap(100, alignment=1)
    for key, nbytes in (("a", 40), ("b", 10), ("c", 20), ("d", 30)):
        arena.place(key, nbytes)
    arena.release("a")
    arena.release("c")
    assert arena.place("e", 20) == 50
    assert arena.place("f", 40) == 0


def test_a_shared_key_is_counted_once_and_stays_until_its_last_user_leaves() -> None:
    """A base shared by two drafts would be paid twice, or vanish under the second draft."""
    arena = ArenaMap(256)
    first = arena.place("base", 100)
    assert arena.place("base", 100) == first
    assert arena.used == 100
    assert arena.release("base") == 0
    assert "base" in arena
    assert arena.place("other", 200) is None
    assert arena.release("base") == 100
    assert arena.used == 0
    assert arena.place("other", 256) == 0


def test_a_second_release_is_an_error() -> None:
    """A silent double release would free the memory of whoever was placed there since."""
    arena = ArenaMap(64)
    arena.place("a", 10)
    arena.release("a")
    with pytest.raises(KeyError, match="released already"):
        arena.release("a")


def test_a_copy_is_independent() -> None:
    """Trying an eviction out would evict for real."""
    arena = ArenaMap(64)
    arena.place("a", 10)
    twin = arena.copy()
    twin.place("a", 10)
    twin.release("a")
    twin.release("a")
    assert "a" in arena
    assert arena.used == 10
    assert arena.release("a") == 10


@pytest.mark.parametrize(("nbytes", "alignment"), [(0, 64), (-1, 64), (10, 0), (10, 3), (10, -2)])
def test_impossible_arenas_are_refused(nbytes: int, alignment: int) -> None:
    """Rounding with an alignment that is no power of two would place drafts across each other."""
    with pytest.raises(ValueError, match=r"must be a power of two|needs at least 1"):
        ArenaMap(nbytes, alignment)


def test_impossible_artefacts_are_refused() -> None:
    """An empty artefact, or one key with two sizes, is a mistake of the caller that must not be placed."""
    arena = ArenaMap(64)
    arena.place("a", 10)
    with pytest.raises(ValueError, match="needs at least 1"):
        arena.place("b", 0)
    with pytest.raises(ValueError, match="10 bytes and asked for with 11"):
        arena.place("a", 11)
    assert arena.release("a") == 10
