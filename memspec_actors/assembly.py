"""Put together what the five actors work with, from an engine's configuration and its opened models."""

from collections.abc import Callable
from functools import partial

from memspec_actors.config import Config, TargetConfig
from memspec_actors.loadout import Loadout
from memspec_actors.models.devices.threads import stand_back, use_threads
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.reader import ArenaReader
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.weights.loading import Throttle
from memspec_actors.protocols.messages import LoadProgress
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.runtime import Workers
from memspec_actors.scheduling.artefacts import Artefact, DraftArena, DraftSpec
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.scheduling.residency import Residency
from memspec_actors.sessions import open_session
from memspec_actors.speculation.adaptation import Adaptations
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.wiring import Parts

__all__ = ["assemble"]


def assemble(
    config: Config,
    loadout: Loadout,
    log: EventLog,
    *,
    predictor: Callable[[], Ranker],
    on_progress: Callable[[LoadProgress], None],
) -> Parts:
    """Return the parts of an engine whose drafts are all still to be loaded.

    ``predictor`` gives the trained ranker, to policies that need it only; ``on_progress`` hears how far loads are.
    """
    policy_of = partial(parse_policy, draft_names=tuple(loadout.plans))
    specs = [DraftSpec(name, (Artefact(name, plan.nbytes),)) for name, plan in loadout.plans.items()]
    maker = RankerMaker(
        drafts=tuple(loadout.plans),
        predictor=predictor,
        capacity=loadout.capacity,
        fits=DraftArena(specs, loadout.budget_bytes).could_hold,
    )

    def open_one(request: GenerationRequest) -> DecodeSession:
        return open_session(loadout, request, watches_catch_up=policy_of(request.policy).watches_catch_up)

    return Parts(
        open_session=open_one,
        policy_of=policy_of,
        new_ranker=lambda policy, point: maker.make(policy, seed=point.seed, plan=point.plan),
        reader=_reader(loadout, config.storage.bytes_per_second),
        residency=Residency(specs, capacity=loadout.capacity, budget_bytes=loadout.budget_bytes),
        schedule=config.schedule,
        capacity=loadout.capacity,
        log=log,
        on_progress=on_progress,
        adaptations=Adaptations(shared=config.speculation.share_thresholds),
        new_workers=partial(_new_workers, config.target),
    )


def _reader(loadout: Loadout, bytes_per_second: float | None) -> ArenaReader:
    arena = WeightArena(loadout.budget_bytes, loadout.device)
    throttle = None if bytes_per_second is None else Throttle(bytes_per_second)
    return ArenaReader(arena, loadout.plans, loadout.num_common, throttle)


def _new_workers(target: TargetConfig, name: str) -> Workers:
    """Give decoding its threads; what goes on beside it has few and comes second, so that it takes no core away."""
    if name == "decode":
        return Workers(name, partial(use_threads, target.num_threads))
    return Workers(name, partial(stand_back, target.background_threads))
