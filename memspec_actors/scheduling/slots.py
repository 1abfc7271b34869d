"""The drafts that take up memory, and the places and bytes they take."""

from collections.abc import Sequence

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.artefacts import DraftArena, DraftSpec
from memspec_actors.scheduling.instructions import StartLoad
from memspec_actors.scheduling.slot import IN_TRANSIT, LEAVING, Slot, State

__all__ = ["Slots"]


class Slots:
    """Keep at most ``capacity`` drafts within ``budget_bytes`` bytes, whatever state they are in.

    Raises ValueError for a capacity below 1 and ConfigError for impossible specs.
    """

    def __init__(self, specs: Sequence[DraftSpec], capacity: int, budget_bytes: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1")
        self.capacity = capacity
        self.arena = DraftArena(specs, budget_bytes)
        self._generations = {spec.name: 0 for spec in specs}
        self._slots: dict[str, Slot] = {}

    @property
    def draft_names(self) -> tuple[str, ...]:
        """Every draft there is, in memory or not."""
        return tuple(self._generations)

    def get(self, name: str) -> Slot | None:
        return self._slots.get(name)

    def find(self, draft: ResidentDraft, *states: State) -> Slot | None:
        """Return the slot of exactly this load if it is in one of these states: others are stale."""
        slot = self._slots.get(draft.name)
        return slot if slot is not None and slot.draft == draft and slot.state in states else None

    def in_state(self, *states: State) -> tuple[Slot, ...]:
        """Return the slots in these states, in the order of the specs."""
        slots = [self._slots[name] for name in self._generations if name in self._slots]
        return tuple(slot for slot in slots if slot.state in states)

    def held(self, wanted: Sequence[str]) -> list[str]:
        """Return Algorithm 2's G: drafts in memory or on their way, but for those that leave unwanted."""
        return [name for name, slot in self._slots.items() if slot.state not in LEAVING or name in wanted]

    @property
    def resident_bytes(self) -> int:
        """Bytes of drafts whose load has finished, until they are freed."""
        return self.arena.nbytes(name for name, slot in self._slots.items() if slot.state not in IN_TRANSIT)

    @property
    def reserved_bytes(self) -> int:
        """Bytes that loads in flight have reserved."""
        return self.arena.used - self.resident_bytes

    def start_load(self, name: str) -> StartLoad | None:
        """Reserve a place and bytes for a draft, or return None if something has to end or to be freed first."""
        in_transit = [slot.draft.name for slot in self.in_state(*IN_TRANSIT)]
        # An artefact that is being read for another draft is neither there nor ours to read: wait how that load ends.
        contested = self.arena.artefact_names([name]) & self.arena.artefact_names(in_transit)
        if name in self._slots or len(self._slots) >= self.capacity or contested:
            return None
        used = self.arena.used
        placements = self.arena.place(name, present=self.arena.artefact_names(self._slots))
        if placements is None:
            return None
        self._generations[name] += 1
        draft = ResidentDraft(name, self._generations[name])
        self._slots[name] = Slot(draft)
        return StartLoad(draft, placements, self.arena.used - used)

    def drop(self, slot: Slot) -> int:
        """Give back a draft's place; return the bytes that became free."""
        del self._slots[slot.draft.name]
        return self.arena.release(slot.draft.name)
