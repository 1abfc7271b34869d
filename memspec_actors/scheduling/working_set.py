"""MemSpec's Algorithm 2: which drafts to evict and which to prefetch so that the best-ranked K become resident."""

from collections.abc import Callable, Collection, Sequence

import msgspec

__all__ = ["CacheUpdate", "Eviction", "update_cache", "working_set"]

Fits = Callable[[Sequence[str]], bool]


class Eviction(msgspec.Struct, frozen=True):
    """Name a draft to evict and the draft that needs its room."""

    victim: str
    room_for: str


class CacheUpdate(msgspec.Struct, frozen=True):
    """Say what to do, in this order: evict, then prefetch as the room becomes free."""

    evict: tuple[Eviction, ...] = ()
    prefetch: tuple[str, ...] = ()


def working_set(order: Sequence[str], capacity: int, fits: Fits) -> tuple[str, ...]:
    """Return W: the first ``capacity`` drafts of ``order`` that fit in memory together.

    A draft that does not fit beside better-ranked ones is passed over, so that bytes bind before K where they are
    scarcer. With enough bytes for any K drafts this is the paper's top-K.
    """
    wanted: list[str] = []
    for draft in order:
        if len(wanted) == capacity:
            break
        if fits([*wanted, draft]):
            wanted.append(draft)
    return tuple(wanted)


def update_cache(
    order: Sequence[str],
    wanted: Sequence[str],
    held: Sequence[str],
    *,
    protected: Collection[str],
    capacity: int,
    fits: Fits,
) -> CacheUpdate:
    """Decide evictions and prefetches (MemSpec, Algorithm 2).

    ``held`` is G: drafts that are resident or being prefetched and are not leaving already. ``protected`` drafts (the
    active one) are never evicted, nor are ``wanted`` ones. ``fits(drafts)`` says whether these drafts have room
    together once all others are gone. For each wanted draft that is not held, the lowest-ranked evictable draft goes
    until there is room; a draft for which no room can be made stops the update and costs nobody their place.
    """
    rank = {draft: position for position, draft in enumerate(order)}
    cache = list(held)
    evict: list[Eviction] = []
    prefetch: list[str] = []
    for draft in wanted:
        if draft in cache:
            continue
        kept = list(cache)
        evictable = [d for d in cache if d not in wanted and d not in protected]
        evictable.sort(key=lambda d: rank.get(d, len(rank)))  # best first; unranked drafts are worth least
        victims: list[Eviction] = []
        while len(kept) >= capacity or not fits([*kept, draft]):
            if not evictable:
                return CacheUpdate(tuple(evict), tuple(prefetch))
            victim = evictable.pop()
            kept.remove(victim)
            victims.append(Eviction(victim, draft))
        cache = [*kept, draft]
        evict += victims
        prefetch.append(draft)
    return CacheUpdate(tuple(evict), tuple(prefetch))
