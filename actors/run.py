"""The request that the Decoder is at work on: where it stands, and what its caller and the other actors learn of it."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.protocols.messages import (
    DraftRanking,
    Generate,
    IterationReport,
    ResidencyAnnounced,
    ResidentDraft,
    SchedulingPoint,
    SequenceStarted,
    ThresholdsPublished,
    WaitedFor,
)
from memspec_actors.protocols.results import FinishReason, TextChunk, TokenLogprob
from memspec_actors.scheduling.pace import Pace
from memspec_actors.scheduling.pick import desired
from memspec_actors.scheduling.policy import Policy
from memspec_actors.telemetry.recorder import RequestRecorder

__all__ = ["Run", "Wait", "Waiting"]

TOKENS_PER_ITERATION = 6  # five drafted ones, all accepted, and the target's own


class Waiting(NamedTuple):
    """A request whose turn has not come."""

    generate: Generate
    recorder: RequestRecorder
    trace_id: str


class Wait(NamedTuple):
    """Decoding stood still."""

    reason: WaitedFor
    us: float


@dataclass(slots=True)
class Run:
    """A request being decoded; ``ranking`` is the newest that has arrived, ``iteration`` the next one's number."""

    generate: Generate
    recorder: RequestRecorder
    policy: Policy
    session: DecodeSession
    ranking: DraftRanking | None = None
    interval: int = 0
    interval_began: tuple[int, int] = (0, 1)  # at which iteration, with how many tokens of the text
    given_up: dict[WaitedFor, int] = field(default_factory=dict)  # the last interval that was waited in vain for it
    iteration: int = 0
    adapted_to: int = -2  # the iteration whose lessons the session goes by; -1 is the start
    cancelled: bool = False
    unobserved: deque[Feedback] = field(default_factory=deque)  # what no ranking has taken into account yet
    to_hear: tuple[str, ...] = ()  # drafts that the newest ranking asks to read along, until they were let
    pace: Pace = field(default_factory=Pace)
    has_news: bool = False  # the text came slower than it had, or other drafts told what they would have said

    @property
    def id(self) -> str:
        return self.generate.request.request_id

    @property
    def order(self) -> tuple[str, ...]:
        return self.ranking.order if self.ranking else ()

    def interval_is_over(self, num_iterations: int) -> bool:
        """Tell whether the interval has had its iterations, or given the tokens that they can, drafting five each.

        Under a rule that drafts on while a draft is right, N iterations may otherwise outlast whole domains of a text.
        """
        iteration, num_tokens = self.interval_began
        return (
            self.iteration - iteration >= num_iterations
            or self.num_generated - num_tokens >= num_iterations * TOKENS_PER_ITERATION
        )

    def begin_interval(self) -> None:
        self.interval += 1
        self.interval_began = self.iteration, self.num_generated

    @property
    def num_generated(self) -> int:
        return len(self.session.state.token_ids)

    def misses(self, what: WaitedFor, announced: ResidencyAnnounced) -> bool:
        """Tell whether this interval's ranking, the draft that it puts first, or thresholds may still come."""
        if self.given_up.get(what, -1) == self.interval:
            return False
        if what == "prediction":
            return self.ranking is None or self.ranking.interval < self.interval
        if what == "thresholds":
            return self.adapted_to < self.iteration - 1
        usable = {*(draft.name for draft in announced.resident), *announced.unavailable}
        return bool(self.order) and self.order[0] not in usable

    def take_ranking(self, ranking: DraftRanking) -> None:
        self.ranking, self.to_hear = ranking, ranking.to_hear
        self.recorder.ranking(ranking)
        while self.unobserved and self.unobserved[0].iteration < ranking.observed:
            self.unobserved.popleft()

    def take_to_hear(self) -> tuple[str, ...]:
        """Return the drafts that are to read along, once for each ranking that asks for them."""
        to_hear, self.to_hear = self.to_hear, ()
        return to_hear

    @property
    def adapts(self) -> bool:
        """Tell whether the request's rules learn from what is verified."""
        return self.policy.uses_drafts and self.generate.request.thresholds != "fixed"

    @property
    def adapts_in_step(self) -> bool:
        """Tell whether no iteration may start before what the last one taught is known."""
        return self.adapts and self.generate.request.thresholds == "sync"

    def sequence_started(self) -> SequenceStarted:
        request = self.generate.request
        return SequenceStarted(request_id=self.id, stop_rule=request.stop_rule, accept=request.accept)

    def take_thresholds(self, thresholds: ThresholdsPublished) -> None:
        self.adapted_to = thresholds.iteration
        self.session.adapt(thresholds)

    def scheduling_point(
        self, recent_tokens: int, announced: ResidencyAnnounced, active: ResidentDraft | None
    ) -> SchedulingPoint:
        """Give the context at this moment, with the last ``recent_tokens`` generated tokens."""
        return SchedulingPoint(
            request_id=self.id,
            interval=self.interval,
            policy=self.policy.name,
            seed=self.generate.request.seed,
            plan=self.generate.request.plan,
            prompt_ids=self.generate.request.prompt_ids,
            recent_ids=tuple(self.session.generated[-recent_tokens:]),
            num_generated=self.num_generated,
            tokens_left=self.session.state.remaining,
            resident=tuple(draft.name for draft in announced.resident),
            unavailable=announced.unavailable,
            active=active.name if active else None,
            feedback=tuple(self.unobserved),
        )

    def report(
        self, outcome: StepOutcome, draft: ResidentDraft | None, *, epoch: int, wait: Wait | None
    ) -> IterationReport:
        """Describe the iteration that ``draft`` has just run under the announcement ``epoch``, after a wait or none."""
        return IterationReport(
            request_id=self.id,
            interval=self.interval,
            iteration=self.iteration,
            epoch=epoch,
            draft=draft,
            desired=desired(self.order),
            drafted=outcome.drafted,
            accepted=outcome.accepted,
            emitted=len(outcome.commit.ids),
            catch_up_tokens=outcome.catch_up_tokens,
            catch_up_us=outcome.catch_up_us,
            draft_us=outcome.draft_us,
            verify_us=outcome.verify_us,
            waited_us=wait.us if wait else 0.0,
            waited_for=wait.reason if wait else None,
            signals=outcome.signals,
            distances=outcome.distances,
            departures=outcome.departures,
        )

    def remember(self, report: IterationReport, shadows: tuple[Shadow, ...]) -> None:
        """Keep what a learning ranker is to be told of the iteration that has just been committed."""
        fell_short = report.draft is not None and self.pace.falls_short(
            report.emitted, report.draft_us + report.verify_us
        )
        self.has_news = fell_short or bool(shadows)
        if self.policy.learns:
            self.unobserved.append(
                Feedback(
                    iteration=report.iteration,
                    start=len(self.session.state.token_ids) - report.emitted,
                    draft=report.draft.name if report.draft else None,
                    drafted=report.drafted,
                    accepted=report.accepted,
                    emitted=report.emitted,
                    cost_us=report.catch_up_us + report.draft_us + report.verify_us,
                    catch_up_us=report.catch_up_us,
                    shadows=shadows,
                )
            )

    def emit(self, outcome: StepOutcome, draft: ResidentDraft | None, announced: ResidencyAnnounced) -> None:
        """Give the caller what one call of the session added."""
        self._send(
            outcome.commit.text,
            announced,
            token_ids=outcome.commit.ids,
            draft=draft.name if draft else None,
            accepted=outcome.accepted,
            drafted=outcome.drafted,
            logprobs=outcome.logprobs,
        )

    def end_early(self, announced: ResidencyAnnounced) -> FinishReason:
        """End a cancelled text: what was held back for a stop string is text after all."""
        tail = self.session.state.close()
        if tail:
            self._send(tail, announced)
        return "cancelled"

    def finish(self, reason: FinishReason) -> None:
        """Give the caller the result."""
        state = self.session.state
        result = self.recorder.finished(text=state.text, token_ids=tuple(state.token_ids), reason=reason)
        if self.generate.request.sampling.logprobs is not None:
            result = replace(result, logprobs=tuple(self.session.logprobs))
        self.generate.sink.finish(result)

    def _send(
        self,
        text: str,
        announced: ResidencyAnnounced,
        *,
        token_ids: tuple[int, ...] = (),
        draft: str | None = None,
        accepted: int = 0,
        drafted: int = 0,
        logprobs: tuple[TokenLogprob, ...] | None = None,
    ) -> None:
        self.generate.sink.chunk(
            TextChunk(
                text=text,
                token_ids=token_ids,
                draft=draft,
                resident=tuple(each.name for each in announced.resident),
                accepted=accepted,
                drafted=drafted,
                logprobs=logprobs,
            )
        )
