"""Toy models, traced, and the engine on the very same toys in virtual time: what a replay is compared with."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memspec_actors.config import ScheduleConfig
from memspec_actors.models.drafting.reader import ReadDraft
from memspec_actors.models.runner import Runner
from memspec_actors.models.testing import ToyRunner, ToyText
from memspec_actors.models.weights.loading import LoadReport
from memspec_actors.predictor.reading import Tracer
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.messages import Placement
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader, TraceRecord
from memspec_actors.runtime.testing import run_virtual
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.scheduling.residency import Residency
from memspec_actors.simulation.pace import RankingTime, TimedSession, new_workers
from memspec_actors.simulation.setting import Setting
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule
from memspec_actors.stream import Requests, TextStream
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.wiring import Parts, wire

VOCABULARY = 17
NBYTES = 640


@dataclass
class Toys:
    """A target, drafts that are wrong at so many positions, and a prompt; other models may take their places."""

    seed: int
    rates: Sequence[float]
    max_new_tokens: int
    k: int
    eos_ids: frozenset[int] = frozenset({0})
    prompt: tuple[int, ...] = (5, 6, 7)
    num_ids: int = VOCABULARY
    sharpness: float = 1.0
    target: ToyRunner = field(init=False)
    drafts: dict[str, ToyRunner] = field(init=False)

    def __post_init__(self) -> None:
        self.target = ToyRunner(seed=self.seed)
        self.drafts = {
            f"d{i}": ToyRunner(seed=self.seed, error_rate=rate, error_seed=i + 1, sharpness=self.sharpness)
            for i, rate in enumerate(self.rates)
        }

    def trace(self, *, free_runs: bool = False) -> tuple[TraceHeader, TraceRecord]:
        drafts: dict[str, tuple[Runner, int]] = {
            name: (toy, min(self.num_ids, toy.vocab_size)) for name, toy in self.drafts.items()
        }
        tracer = Tracer(
            target=self.target,
            drafts=drafts,
            num_ids=self.num_ids,
            eos_ids=self.eos_ids,
            k=self.k,
            free_runs=free_runs,
        )
        record, _ = tracer.trace(self.prompt, self.max_new_tokens)
        header = TraceHeader(
            format=TRACE_FORMAT,
            target="t",
            drafts={name: name for name in drafts},
            draft_nbytes=dict.fromkeys(drafts, NBYTES),
            k=self.k,
            max_new_tokens=self.max_new_tokens,
            vocab_size=self.num_ids,
            eos_ids=tuple(self.eos_ids),
            iteration_us=None,
            versions={},
        )
        return header, record

    def decode(self, policy: Policy, ranker: Ranker, setting: Setting, log: Path) -> GenerationResult:
        """Decode with the models themselves, wired as an engine is."""
        return run_virtual(lambda: self._decode(policy, ranker, setting, log), seed=None)

    async def _decode(self, policy: Policy, ranker: Ranker, setting: Setting, log: Path) -> GenerationResult:
        specs = [DraftSpec(name, (Artefact(name, NBYTES),)) for name in self.drafts]
        residency = Residency(specs, capacity=setting.capacity, budget_bytes=NBYTES * setting.capacity)
        parts = Parts(
            open_session=lambda request: self._session(request, setting),
            policy_of=lambda _: policy,
            new_ranker=lambda *_: ranker,
            reader=ToyReader(self.drafts, self.num_ids, setting.profile.load_s(NBYTES)),
            residency=residency,
            schedule=setting.schedule,
            capacity=setting.capacity,
            log=EventLog.open(log),
            new_workers=new_workers(
                setting.profile, RankingTime(setting.profile.predict_s if policy.uses_predictor else 0.0)
            ),
        )
        wired = wire(parts, lambda event: None)
        async with wired.system:
            request = GenerationRequest(
                request_id="replay",
                prompt_ids=self.prompt,
                max_new_tokens=self.max_new_tokens,
                sampling=SamplingParams(),
                seed=0,
                policy=policy.name,
                stop_rule=setting.stop or f"fixed:{self.k}",
                accept="exact",
                lossless=True,
                thresholds="async",
            )
            stream = TextStream(Requests(wired.decoder, asyncio.get_running_loop()), request)
            async for _ in stream:
                pass
        parts.log.close()
        return stream.result

    def _session(self, request: GenerationRequest, setting: Setting) -> TimedSession:
        return TimedSession(
            target=self.target,
            request=request,
            num_ids=self.num_ids,
            accept=acceptance_rule("exact", greedy=True),
            stop_rule=stop_rule(request.stop_rule),
            state=CommitState(
                ToyText(),
                end_ids=self.eos_ids,
                stop=(),
                include_stop=False,
                max_new_tokens=request.max_new_tokens,
                context_left=1000,
            ),
            profile=setting.profile,
            watches_catch_up=parse_policy(request.policy, tuple(self.drafts)).watches_catch_up,
        )


class ToyReader:
    emulated = True

    def __init__(self, drafts: dict[str, ToyRunner], num_ids: int, load_s: float) -> None:
        self._drafts, self._num_ids, self._load_s = drafts, num_ids, load_s

    def read(
        self,
        draft: str,
        placements: Sequence[Placement],
        cancelled: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> ReadDraft:
        if cancelled():
            return ReadDraft(LoadReport(0, 0.0, True, True), None, self._num_ids)
        return ReadDraft(LoadReport(NBYTES, self._load_s, True, False), self._drafts[draft], self._num_ids)


class ShiftingRanker:
    """Want other drafts at every scheduling point: the hardest that a trained predictor could do."""

    def __init__(self, seed: int, drafts: Sequence[str]) -> None:
        self._rng, self._drafts = random.Random(seed), drafts

    def rank(self, context: RankingContext) -> Ranking:
        order = self._rng.sample(self._drafts, self._rng.randint(1, len(self._drafts)))
        return Ranking(tuple(order), tuple(1.0 / (i + 1) for i in range(len(order))))

    def observe(self, feedback: Feedback) -> None:
        pass


def schedule(interval: int) -> ScheduleConfig:
    return ScheduleConfig(interval=interval)
