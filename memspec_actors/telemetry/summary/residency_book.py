"""The books of the drafts' coming and going, kept from the records."""

from collections import Counter
from dataclasses import dataclass, field

from memspec_actors.protocols.events import (
    DraftActivatedEvent,
    DraftEvicted,
    DraftLoadCancelled,
    DraftLoadFailed,
    DraftLoadFinished,
    DraftRevoked,
    Event,
)
from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["DraftBook", "ResidencyBook"]

NEVER_ANNOUNCED = "its load was given up"


@dataclass(slots=True)
class DraftBook:
    """Count the loads of one draft."""

    load_ms: list[float] = field(default_factory=list)
    failed: int = 0
    cancelled: int = 0
    evictions: int = 0
    useful: int = 0
    wasted: int = 0


class ResidencyBook:
    """Add up loads, evictions and their reasons; a load is useful once its draft was decoded with."""

    def __init__(self) -> None:
        self.drafts: dict[str, DraftBook] = {}
        self.eviction_reasons: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        """Another run begins: nothing is in memory."""
        self._used: set[ResidentDraft] = set()
        self._revoked_for: dict[ResidentDraft, str] = {}

    def see(self, event: Event) -> None:
        match event:
            case DraftLoadFinished(draft=draft, wall_us=wall_us):
                self._of(draft).load_ms.append(wall_us / 1e3)
            case DraftLoadFailed(draft=draft):
                self._of(draft).failed += 1
            case DraftLoadCancelled(draft=draft):
                self._of(draft).cancelled += 1
            case DraftActivatedEvent(draft=ResidentDraft() as draft):
                self._of(draft).useful += draft not in self._used
                self._used.add(draft)
            case DraftRevoked(draft=draft, reason=reason):
                self._revoked_for[draft] = reason
            case DraftEvicted(draft=draft):
                self._evict(draft)
            case _:
                pass

    def total(self, name: str) -> int:
        """Sum a count over all drafts."""
        return sum(getattr(book, name) for book in self.drafts.values())

    def _evict(self, draft: ResidentDraft) -> None:
        book = self._of(draft)
        book.evictions += 1
        book.wasted += draft not in self._used
        self._used.discard(draft)
        self.eviction_reasons[self._revoked_for.pop(draft, NEVER_ANNOUNCED)] += 1

    def _of(self, draft: ResidentDraft) -> DraftBook:
        return self.drafts.setdefault(draft.name, DraftBook())
