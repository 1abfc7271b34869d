"""Say in the event log's words what the residency state machine decided."""

from memspec_actors.protocols.events import (
    DraftEvicted,
    DraftLoadFailed,
    DraftLoadStarted,
    DraftRevoked,
    Event,
    ResidencyAnnouncedEvent,
)
from memspec_actors.protocols.results import ResidencySnapshot
from memspec_actors.scheduling.instructions import Announce, Failed, Freed, Instruction, Revoked, StartLoad

__all__ = ["residency_event"]


def residency_event(actor: str, instruction: Instruction, after: ResidencySnapshot) -> Event | None:
    """Return the record of an instruction, with the byte counts of ``after``; None for what is not recorded."""
    resident_bytes, reserved_bytes = after.resident_bytes, after.reserved_bytes
    match instruction:
        case StartLoad(draft=draft, nbytes=nbytes):
            return DraftLoadStarted(
                actor=actor, draft=draft, nbytes=nbytes, resident_bytes=resident_bytes, reserved_bytes=reserved_bytes
            )
        case Announce(epoch=epoch, resident=resident, reason=reason):
            return ResidencyAnnouncedEvent(
                actor=actor,
                epoch=epoch,
                resident=resident,
                reason=reason,
                resident_bytes=resident_bytes,
                reserved_bytes=reserved_bytes,
            )
        case Revoked(draft=draft, reason=reason, score=score):
            return DraftRevoked(actor=actor, epoch=after.epoch, draft=draft, reason=reason, score=score)
        case Freed(draft=draft, nbytes=nbytes, acknowledged_epoch=acknowledged_epoch):
            return DraftEvicted(
                actor=actor,
                epoch=after.epoch,
                draft=draft,
                nbytes=nbytes,
                acknowledged_epoch=acknowledged_epoch,
                resident_bytes=resident_bytes,
                reserved_bytes=reserved_bytes,
            )
        case Failed(draft=draft, error=error, retry_in_s=retry_in_s):
            return DraftLoadFailed(
                actor=actor, draft=draft, error=error, retry_in_s=retry_in_s, reserved_bytes=reserved_bytes
            )
        case _:
            return None
