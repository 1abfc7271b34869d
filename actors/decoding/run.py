"""The request that the Decoder is at work on: where it stands, and what the other actors learn of it."""

from dataclasses import dataclass, field

from memspec_actors.actors.decoding.requests import Accepted
from memspec_actors.config import ScheduleConfig
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import (
    DraftRanking,
    IterationReport,
    ResidencyAnnounced,
    ResidentDraft,
    SchedulingPoint,
    SequenceStarted,
    ThresholdsPublished,
    WaitedFor,
)
from memspec_actors.protocols.results import FinishReason
from memspec_actors.scheduling.experience import Experience
from memspec_actors.scheduling.interval import Interval
from memspec_actors.scheduling.pick import desired
from memspec_actors.scheduling.policy import Policy
from memspec_actors.scheduling.waits import Wait, waits_for

__all__ = ["Run"]


@dataclass(slots=True)
class Run:
    """A request being decoded; ``ranking`` is the newest that has arrived, ``iteration`` the next one's number."""

    accepted: Accepted
    policy: Policy
    session: DecodeSession
    schedule: ScheduleConfig
    interval: Interval = field(init=False)
    experience: Experience = field(init=False)
    waits_for: tuple[WaitedFor, ...] = field(init=False)
    ranking: DraftRanking | None = None
    given_up: dict[WaitedFor, int] = field(default_factory=dict)  # the last interval that was waited in vain for it
    iteration: int = 0
    ended_at: float = 0.0  # the event loop's time at which the last iteration, or the prompt's, was over
    adapted_to: int = -2  # the iteration whose lessons the session goes by; -1 is the start
    cancelled: bool = False
    to_hear: tuple[str, ...] = ()  # drafts that the newest ranking asks to read along, until they were let

    def __post_init__(self) -> None:
        self.interval = Interval(self.schedule.interval)
        self.experience = Experience(self.policy.learns)
        self.waits_for = waits_for(self.policy, prediction=self.schedule.prediction, learns_in_step=self.adapts_in_step)

    @property
    def id(self) -> str:
        return self.accepted.request.request_id

    @property
    def order(self) -> tuple[str, ...]:
        return self.ranking.order if self.ranking else ()

    @property
    def num_generated(self) -> int:
        return len(self.session.state.token_ids)

    @property
    def adapts(self) -> bool:
        """Tell whether the request's rules learn from what is verified."""
        return self.policy.uses_drafts and self.accepted.request.thresholds != "fixed"

    @property
    def adapts_in_step(self) -> bool:
        """Tell whether no iteration may start before what the last one taught is known."""
        return self.adapts and self.accepted.request.thresholds == "sync"

    # --- what arrives -------------------------------------------------------------------------------------------------

    def misses(self, what: WaitedFor, announced: ResidencyAnnounced) -> bool:
        """Tell whether this interval's ranking, the draft that it puts first, or thresholds may still come."""
        if self.given_up.get(what, -1) == self.interval.number:
            return False
        if what == "prediction":
            return self.ranking is None or self.ranking.interval < self.interval.number
        if what == "thresholds":
            return self.adapted_to < self.iteration - 1
        usable = {*(draft.name for draft in announced.resident), *announced.unavailable}
        return bool(self.order) and self.order[0] not in usable

    def give_up(self, what: WaitedFor) -> None:
        """Wait for it no more in this interval."""
        self.given_up[what] = self.interval.number

    def take_ranking(self, ranking: DraftRanking) -> None:
        self.ranking, self.to_hear = ranking, ranking.to_hear
        self.accepted.recorder.ranking(ranking)
        self.experience.forget(ranking.observed)

    def take_to_hear(self) -> tuple[str, ...]:
        """Return the drafts that are to read along, once for each ranking that asks for them."""
        to_hear, self.to_hear = self.to_hear, ()
        self.experience.asked.update(to_hear)
        return to_hear

    def take_thresholds(self, thresholds: ThresholdsPublished) -> None:
        self.adapted_to = thresholds.iteration
        self.session.adapt(thresholds)

    # --- what is told -------------------------------------------------------------------------------------------------

    def sequence_started(self) -> SequenceStarted:
        request = self.accepted.request
        return SequenceStarted(request_id=self.id, stop_rule=request.stop_rule, accept=request.accept)

    def scheduling_point(self, announced: ResidencyAnnounced, active: ResidentDraft | None) -> SchedulingPoint:
        """Give the context at this moment."""
        request = self.accepted.request
        return SchedulingPoint(
            request_id=self.id,
            interval=self.interval.number,
            policy=self.policy.name,
            seed=request.seed,
            plan=request.plan,
            prompt_ids=request.prompt_ids,
            recent_ids=tuple(self.session.generated[-self.schedule.recent_tokens :]),
            num_generated=self.num_generated,
            tokens_left=self.session.state.remaining,
            resident=tuple(draft.name for draft in announced.resident),
            unavailable=announced.unavailable,
            active=active.name if active else None,
            feedback=self.experience.unobserved,
        )

    def report(
        self, outcome: StepOutcome, draft: ResidentDraft | None, *, epoch: int, wait: Wait | None
    ) -> IterationReport:
        """Describe the iteration that ``draft`` has just run under the announcement ``epoch``, after a wait or none."""
        return IterationReport(
            request_id=self.id,
            interval=self.interval.number,
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
        self.experience.add(report, self.num_generated - report.emitted, shadows)

    # --- its end ------------------------------------------------------------------------------------------------------

    def end_early(self, resident: tuple[ResidentDraft, ...]) -> FinishReason:
        """End a cancelled text: what was held back for a stop string is text after all."""
        tail = self.session.state.close()
        if tail:
            self.accepted.emit_tail(tail, resident)
        return "cancelled"

    def finish(self, reason: FinishReason) -> None:
        """Give the caller the result."""
        state = self.session.state
        asked_for_logprobs = self.accepted.request.sampling.logprobs is not None
        self.accepted.finish(
            reason,
            text=state.text,
            token_ids=tuple(state.token_ids),
            logprobs=tuple(self.session.logprobs) if asked_for_logprobs else None,
        )
