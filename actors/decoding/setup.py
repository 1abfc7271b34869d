"""What the Decoder works with, and whom it talks to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memspec_actors.config import ScheduleConfig
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    PredictorMessage,
    ResidentDraft,
    VerifierStatsMessage,
)
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.runtime import ActorRef, Workers
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.residency_counts import ResidencyCounts
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["DecoderPeers", "DecoderSetup"]


@dataclass(frozen=True, kw_only=True)
class DecoderPeers:
    """Name the actors that the Decoder talks to."""

    predictor: ActorRef[PredictorMessage]
    cache_manager: ActorRef[CacheManagerMessage]
    verifier_stats: ActorRef[VerifierStatsMessage]


@dataclass(frozen=True, kw_only=True)
class DecoderSetup:
    """Give the Decoder what it works with.

    ``runners`` holds the runner of every loaded draft; ``warm_workers`` is a second thread, for warming drafts beside
    decoding.
    """

    open_session: Callable[[GenerationRequest], DecodeSession]
    policy_of: Callable[[str], Policy]
    runners: Mapping[ResidentDraft, BoundDraft]
    workers: Workers
    warm_workers: Workers
    schedule: ScheduleConfig
    capacity: int
    residency_counts: Callable[[], ResidencyCounts]
    emulated_storage: bool
    log: EventLog
