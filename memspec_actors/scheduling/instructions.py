"""What the residency state machine asks to be done, in the order in which it must be done."""

import msgspec

from memspec_actors.protocols.messages import Placement, ResidentDraft

__all__ = ["AbortLoad", "Announce", "Failed", "Freed", "Instruction", "Revoked", "StartLoad", "Warm"]


class StartLoad(msgspec.Struct, frozen=True, tag=True):
    """Load a draft into its places; ``nbytes`` were reserved for it (artefacts that lie there already cost none)."""

    draft: ResidentDraft
    placements: tuple[Placement, ...]
    nbytes: int


class AbortLoad(msgspec.Struct, frozen=True, tag=True):
    """Give up a load. Its bytes stay reserved until it ends, one way or another."""

    draft: ResidentDraft


class Warm(msgspec.Struct, frozen=True, tag=True):
    """Have the Decoder warm a loaded draft, so that its first iteration need not wait."""

    draft: ResidentDraft


class Announce(msgspec.Struct, frozen=True, tag=True):
    """Announce a new epoch."""

    epoch: int
    resident: tuple[ResidentDraft, ...]
    unavailable: tuple[str, ...]
    reason: str


class Revoked(msgspec.Struct, frozen=True, tag=True):
    """Record that a draft is left out of the epoch announced next; ``score`` is None if the ranking left it out."""

    draft: ResidentDraft
    reason: str
    score: float | None


class Freed(msgspec.Struct, frozen=True, tag=True):
    """Drop a draft's runner: its ``nbytes`` unshared bytes are free and the acknowledged epoch does not name it."""

    draft: ResidentDraft
    nbytes: int
    acknowledged_epoch: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Record that a load failed, its bytes are free, and the draft may be tried again after ``retry_in_s`` seconds."""

    draft: ResidentDraft
    error: str
    retry_in_s: float


Instruction = StartLoad | AbortLoad | Warm | Announce | Revoked | Freed | Failed
