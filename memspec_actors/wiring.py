"""Connect the five actors: who knows whom, and what happens to a message when a mailbox is full."""

from collections.abc import Callable
from dataclasses import dataclass, field

from memspec_actors.actors import CacheManager, Decoder, DecoderPeers, DecoderSetup, Loader, Predictor, VerifierStats
from memspec_actors.actors.cache_manager import Heard
from memspec_actors.config import ScheduleConfig
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.drafting.reader import DraftReader
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.messages import (
    CacheManagerMessage,
    Cancel,
    DecoderMessage,
    DraftRanking,
    LoadProgress,
    ResidencyAnnounced,
    ResidentDraft,
    SchedulingPoint,
    ThresholdsPublished,
    VerifierStatsMessage,
    WarmDraft,
)
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.runtime import ActorRef, ActorSystem, MailboxPolicy, RuntimeEvent, Workers
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.ranker_pool import RankerPool
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.scheduling.residency import Residency
from memspec_actors.speculation.adaptation import Adaptations
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["Parts", "Wired", "wire"]

_CONTROL = MailboxPolicy(capacity=1024)
_PREDICTOR = MailboxPolicy(latest={SchedulingPoint: lambda _: None})
_CACHE_MANAGER = MailboxPolicy(
    capacity=1024, latest={DraftRanking: lambda _: None, LoadProgress: lambda progress: progress.draft}
)
_DECODER = MailboxPolicy(
    capacity=1024,
    latest={
        ResidencyAnnounced: lambda _: None,
        DraftRanking: lambda _: None,
        ThresholdsPublished: lambda _: None,
        # One of a kind, and their senders cannot wait: however many requests crowd the mailbox, these get in.
        WarmDraft: lambda warm: warm.draft,
        Cancel: lambda cancel: cancel.request_id,
    },
    # Else each load would wait for the end of an iteration, before it begins and before its draft can be used.
    beside=frozenset({WarmDraft}),
    early=frozenset({ResidencyAnnounced}),
)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything that outlives an actor's restart. ``new_workers`` makes a named worker thread."""

    open_session: Callable[[GenerationRequest], DecodeSession]
    policy_of: Callable[[str], Policy]
    new_ranker: Callable[[Policy, SchedulingPoint], Ranker]
    reader: DraftReader
    residency: Residency
    schedule: ScheduleConfig
    capacity: int
    log: EventLog
    on_progress: Callable[[LoadProgress], None] | None = None
    new_workers: Callable[[str], Workers] = Workers
    runners: dict[ResidentDraft, BoundDraft] = field(default_factory=dict)
    counters: SpeculationCounters = field(default_factory=SpeculationCounters)
    adaptations: Adaptations = field(default_factory=Adaptations)


@dataclass(frozen=True, kw_only=True)
class Wired:
    """The system, not started yet, and the actors that callers talk to; ``workers`` are theirs to close."""

    system: ActorSystem
    decoder: ActorRef[DecoderMessage]
    cache_manager: ActorRef[CacheManagerMessage]
    verifier_stats: ActorRef[VerifierStatsMessage]
    workers: tuple[Workers, ...]


def wire(parts: Parts, observer: Callable[[RuntimeEvent], None]) -> Wired:
    """Spawn the actors: those that serve come first, the Decoder last, so that it stops first."""
    system = ActorSystem(observer=observer)
    decode, warm, rank, load = (parts.new_workers(name) for name in ("decode", "warm", "rank", "load"))
    pool = RankerPool(parts.policy_of, parts.new_ranker)
    # The actors know one another in circles; each factory runs only when the system starts and every ref is there.
    verifier_stats = system.spawn(
        "verifier_stats",
        lambda: VerifierStats(parts.counters, parts.adaptations, decoder, parts.log),
        mailbox=_CONTROL,
    )
    loader = system.spawn(
        "loader",
        lambda: Loader(reader=parts.reader, runners=parts.runners, cache_manager=cache_manager, workers=load),
        mailbox=_CONTROL,
    )
    unheard: list[Heard] = []
    cache_manager: ActorRef[CacheManagerMessage] = system.spawn(
        "cache_manager",
        lambda: CacheManager(
            residency=parts.residency,
            unheard=unheard,
            myself=cache_manager,
            decoder=decoder,
            loader=loader,
            log=parts.log,
            on_progress=parts.on_progress,
        ),
        mailbox=_CACHE_MANAGER,
    )
    predictor = system.spawn(
        "predictor",
        lambda: Predictor(pool=pool, decoder=decoder, cache_manager=cache_manager, workers=rank, log=parts.log),
        mailbox=_PREDICTOR,
    )
    setup = _decoder_setup(parts, decode, warm)
    peers = DecoderPeers(predictor=predictor, cache_manager=cache_manager, verifier_stats=verifier_stats)
    decoder: ActorRef[DecoderMessage] = system.spawn("decoder", lambda: Decoder(setup, peers), mailbox=_DECODER)
    return Wired(
        system=system,
        decoder=decoder,
        cache_manager=cache_manager,
        verifier_stats=verifier_stats,
        workers=(decode, warm, rank, load),
    )


def _decoder_setup(parts: Parts, decode: Workers, warm: Workers) -> DecoderSetup:
    return DecoderSetup(
        open_session=parts.open_session,
        policy_of=parts.policy_of,
        runners=parts.runners,
        workers=decode,
        warm_workers=warm,
        schedule=parts.schedule,
        capacity=parts.capacity,
        residency_counts=lambda: parts.residency.counts,
        emulated_storage=parts.reader.emulated,
        log=parts.log,
    )
