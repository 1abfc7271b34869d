"""Say in the event log's words what the residency state machine heard and decided.

Records carry the numbers of after all that follows from a message: the CacheManager does it in one go.
"""

from memspec_actors.protocols.events import (
    DraftEvicted,
    DraftLoadCancelled,
    DraftLoadFailed,
    DraftLoadFinished,
    DraftLoadStarted,
    DraftRevoked,
    Event,
    RankingApplied,
    ResidencyAnnouncedEvent,
)
from memspec_actors.protocols.messages import CacheManagerMessage, DraftRanking, LoadCancelled, LoadFinished
from memspec_actors.scheduling.instructions import Announce, Failed, Freed, Instruction, Revoked, StartLoad
from memspec_actors.scheduling.residency import Residency

__all__ = ["heard_event", "residency_event"]


def residency_event(actor: str, instruction: Instruction, after: Residency) -> Event | None:
    """Return the record of an instruction, None for what is not recorded."""
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


def heard_event(actor: str, message: CacheManagerMessage, after: Residency) -> Event | None:
    """Return the record of a message, None for what is not recorded."""
    match message:
        case DraftRanking(request_id=request_id, interval=interval, order=order):
            return RankingApplied(actor=actor, request_id=request_id, interval=interval, order=order)
        case LoadFinished(draft=draft, nbytes=nbytes, wall_us=wall_us, emulated=emulated):
            return DraftLoadFinished(actor=actor, draft=draft, nbytes=nbytes, wall_us=wall_us, emulated=emulated)
        case LoadCancelled(draft=draft):
            return DraftLoadCancelled(actor=actor, draft=draft, reserved_bytes=after.reserved_bytes)
        case _:
            return None
