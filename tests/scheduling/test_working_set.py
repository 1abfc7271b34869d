"""Algorithm 2, against the paper's own as printed."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.scheduling.working_set import Eviction, update_cache, working_set

NAMES = "abcdefg"


def paper_update(
    ranking: list[str], resident: set[str], prefetching: set[str], capacity: int, active: str | None
) -> tuple[list[str], list[str]]:
    """Algorithm 2 as printed, where |G| counts what is being prefetched as well: lists of evictions and prefetches."""
    scores = {d: -ranking.index(d) for d in ranking}
    evicted: list[str] = []
    prefetched: list[str] = []
    cache = resident | prefetching
    top_k = ranking[:capacity]
    for d in top_k:
        if d not in cache:
            while len(cache) == capacity:
                candidates = cache - (set(top_k) | {active})
                if not candidates:
                    break
                d_evict = min(candidates, key=lambda c: scores[c])
                cache.remove(d_evict)
                evicted.append(d_evict)
            if len(cache) < capacity:
                cache.add(d)
                prefetched.append(d)
    return evicted, prefetched


@given(st.data())
def test_equal_drafts_are_moved_as_the_paper_says(data: st.DataObject) -> None:
    """The headline policy would not be MemSpec's."""
    ranking = data.draw(st.permutations(NAMES))
    capacity = data.draw(st.integers(1, len(NAMES)))
    cache = data.draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=capacity))
    num_resident = data.draw(st.integers(0, len(cache)))
    resident, prefetching = set(cache[:num_resident]), set(cache[num_resident:])
    active = data.draw(st.sampled_from([None, *sorted(resident)]))
    expected = paper_update(list(ranking), resident, prefetching, capacity, active)

    wanted = working_set(ranking, capacity, lambda drafts: True)
    update = update_cache(
        ranking,
        wanted,
        cache,
        protected={active} if active else (),
        capacity=capacity,
        fits=lambda drafts: len(drafts) <= capacity,
    )
    assert list(wanted) == list(ranking)[:capacity]
    assert ([eviction.victim for eviction in update.evict], list(update.prefetch)) == expected


@given(st.data())
def test_drafts_of_any_size_keep_to_the_rules(data: st.DataObject) -> None:
    """Where bytes bind: nothing wanted or active may be evicted, nothing evicted in vain, nothing overbooked."""
    sizes = {name: data.draw(st.integers(1, 10)) for name in NAMES}
    budget = data.draw(st.integers(1, 30))
    capacity = data.draw(st.integers(1, 5))
    ranking = data.draw(st.permutations(NAMES).map(lambda order: order[: len(order) - 1]))

    def fits(drafts: Sequence[str]) -> bool:
        return sum(sizes[d] for d in drafts) <= budget

    cache: list[str] = []
    for name in data.draw(st.permutations(NAMES)):
        if len(cache) < capacity and fits([*cache, name]):
            cache.append(name)
    active = data.draw(st.sampled_from([None, *cache]))
    wanted = working_set(ranking, capacity, fits)
    update = update_cache(ranking, wanted, cache, protected={active} if active else (), capacity=capacity, fits=fits)

    victims = [eviction.victim for eviction in update.evict]
    after = [d for d in cache if d not in victims] + list(update.prefetch)
    assert len(wanted) <= capacity
    assert fits(wanted)
    assert not set(victims) & {*wanted, active}
    assert len(set(after)) == len(after) <= capacity
    assert fits(after)
    assert set(update.prefetch) <= set(wanted) - set(cache)
    for eviction in update.evict:
        assert eviction.room_for in update.prefetch
    missing = [d for d in wanted if d not in after]
    evictable = set(after) - {*wanted, active}
    if missing:  # then no room could be made for the first of them, whoever had to go
        kept = [d for d in after if d not in evictable]
        assert len(kept) >= capacity or not fits([*kept, missing[0]])


def test_the_working_set_passes_over_what_does_not_fit_beside_better_drafts() -> None:
    """The best draft could be kept out for ever by a worse one that is in the top K but does not fit beside it."""
    sizes = {"big": 8, "bigger": 9, "small": 2, "tiny": 1}
    wanted = working_set(["big", "bigger", "small", "tiny"], 3, lambda drafts: sum(sizes[d] for d in drafts) <= 10)
    assert wanted == ("big", "small")


def test_the_lowest_ranked_goes_first_and_unranked_before_all() -> None:
    """Evicting anything else throws away the draft that is likelier to be needed."""

    def update(capacity: int) -> tuple[Eviction, ...]:
        return update_cache(
            ["n", "m", "x", "y"], ["n", "m"][:capacity], ["x", "y", "z"], protected=(), capacity=3, fits=lambda d: True
        ).evict

    assert update(1) == (Eviction("z", "n"),)
    assert update(2) == (Eviction("z", "n"), Eviction("y", "m"))
