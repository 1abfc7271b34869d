"""Decode a traced prompt in virtual time: the engine's own actors, models that are played, a device's times."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from memspec_actors.errors import EngineClosed
from memspec_actors.models.drafting.reader import ReadDraft
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.layout import ALIGNMENT
from memspec_actors.models.weights.loading import ByteProgress, Cancelled, LoadReport
from memspec_actors.protocols.messages import Placement
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.protocols.traces import TraceHeader, TraceRecord
from memspec_actors.runtime import Crashed
from memspec_actors.runtime.testing import run_virtual
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.scheduling.residency import Residency
from memspec_actors.simulation.pace import RankingTime, TimedSession, new_workers
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.simulation.setting import Setting, check_replayable, text_limit
from memspec_actors.simulation.traced import draft_runners, target_runner
from memspec_actors.speculation.adaptation import adapts
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.criterion import MAX_GAIN_TOKENS
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule
from memspec_actors.stream import Requests, TextStream
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.wiring import Parts, wire

__all__ = ["replay"]


def replay(
    header: TraceHeader,
    record: TraceRecord,
    policy: Policy,
    new_ranker: Callable[[], Ranker],
    setting: Setting,
    log: EventLog | None = None,
) -> GenerationResult:
    """Decode one traced prompt from a cold start and return what the engine says of it; times are virtual seconds.

    ``new_ranker`` is not called for a policy that uses no drafts. A rule that goes by how sure a draft is needs a trace
    with free runs: raises TraceError without them. Raises ConfigError for a rule of the user's own.
    """
    check_replayable(record, setting.stop_for(header))
    return run_virtual(
        lambda: _decode(header, record, policy, new_ranker, setting, log or EventLog.open(None)), seed=None
    )


async def _decode(
    header: TraceHeader,
    record: TraceRecord,
    policy: Policy,
    new_ranker: Callable[[], Ranker],
    setting: Setting,
    log: EventLog,
) -> GenerationResult:
    ranking = RankingTime(setting.profile.predict_s if policy.uses_predictor else 0.0)
    crashes: list[Exception] = []
    wired = wire(
        _parts(header, record, policy, new_ranker, setting, ranking, log),
        lambda event: crashes.append(event.error) if isinstance(event, Crashed) else None,
    )
    try:
        async with wired.system:
            requests = Requests(wired.decoder, asyncio.get_running_loop())
            stream = TextStream(requests, _request(header, record, policy, setting.stop_for(header)))
            async for _ in stream:
                pass
    except EngineClosed as closed:  # by an actor that died, whose error says more
        raise (crashes[0] if crashes else closed) from None
    for error in crashes:
        raise error
    assert stream.result.token_ids == record.output_ids, "a replay must give the traced text"
    return _with_ranking_time(stream.result, ranking.total_s)


def _parts(
    header: TraceHeader,
    record: TraceRecord,
    policy: Policy,
    new_ranker: Callable[[], Ranker],
    setting: Setting,
    ranking: RankingTime,
    log: EventLog,
) -> Parts:
    """Give the actors models that are played and threads on which a device's times pass."""
    longest = max(stop_rule(setting.stop_for(header)).max_tokens, MAX_GAIN_TOKENS)
    return Parts(
        open_session=lambda request: TimedSession(
            target=target_runner(record, header.vocab_size, longest),
            request=request,
            num_ids=header.vocab_size,
            accept=acceptance_rule("exact", greedy=True),
            stop_rule=stop_rule(request.stop_rule),
            state=_state(header, request),
            watches_catch_up=policy.watches_catch_up,
            profile=setting.profile,
        ),
        policy_of=lambda _: policy,
        new_ranker=lambda *_: new_ranker(),
        reader=_TracedReader(draft_runners(record, header.vocab_size, longest), header.vocab_size, setting.profile),
        residency=_residency(header, setting.capacity),
        schedule=setting.schedule,
        capacity=setting.capacity,
        log=log,
        new_workers=new_workers(setting.profile, ranking),
    )


def _with_ranking_time(result: GenerationResult, ranking_s: float) -> GenerationResult:
    """Put virtual time in the place of what rankings took in this process."""
    decode_s = result.timing.decode_s
    share = ranking_s / decode_s if decode_s > 0 else 0.0
    return replace(result, scheduling=replace(result.scheduling, prediction_busy_share=share))


def _request(header: TraceHeader, record: TraceRecord, policy: Policy, stop: str) -> GenerationRequest:
    return GenerationRequest(
        request_id="replay",
        prompt_ids=record.prompt_ids,
        max_new_tokens=text_limit(header, record),
        sampling=SamplingParams(),
        seed=0,
        policy=policy.name,
        stop_rule=stop,
        accept="exact",
        lossless=True,
        thresholds="async" if adapts(stop, "exact") else "fixed",
    )


def _state(header: TraceHeader, request: GenerationRequest) -> CommitState:
    return CommitState(
        _NoText(),
        end_ids=frozenset(header.eos_ids),
        stop=(),
        include_stop=False,
        max_new_tokens=request.max_new_tokens,
        context_left=request.max_new_tokens,
    )


def _residency(header: TraceHeader, capacity: int) -> Residency:
    """Return an empty cache with room for any K of the drafts, as an engine has it by default."""
    sizes = {name: math.ceil(nbytes / ALIGNMENT) * ALIGNMENT for name, nbytes in header.draft_nbytes.items()}
    specs = [DraftSpec(name, (Artefact(name, nbytes),)) for name, nbytes in sizes.items()]
    return Residency(specs, capacity=capacity, budget_bytes=sum(sorted(sizes.values(), reverse=True)[:capacity]))


class _TracedReader:
    """Hand out the played drafts: the worker lets the time of reading them pass."""

    emulated = True

    def __init__(self, runners: Mapping[str, Runner], vocab_size: int, profile: DeviceProfile) -> None:
        self._runners = runners
        self._vocab_size = vocab_size
        self._profile = profile

    def read(
        self, draft: str, placements: Sequence[Placement], cancelled: Cancelled, progress: ByteProgress
    ) -> ReadDraft:
        nbytes = sum(placement.nbytes for placement in placements)
        if cancelled():
            return ReadDraft(LoadReport(0, 0.0, True, True), None, self._vocab_size)
        report = LoadReport(nbytes, self._profile.load_s(nbytes), True, False)
        return ReadDraft(report, self._runners[draft], self._vocab_size)


class _NoText:
    """Decode ids to nothing: a replay is about tokens."""

    def feed(self, token_id: int) -> str:
        return ""

    def flush(self) -> str:
        return ""
