"""The request that the Decoder is at work on: where it stands, and what its caller and the other actors learn of it."""

from dataclasses import dataclass
from typing import NamedTuple

from memspec_actors.models.session import DecodeSession, StepOutcome
from memspec_actors.protocols.messages import (
    DraftRanking,
    Generate,
    IterationReport,
    ResidencyAnnounced,
    ResidentDraft,
    SchedulingPoint,
)
from memspec_actors.protocols.results import FinishReason, TextChunk
from memspec_actors.scheduling.pick import desired
from memspec_actors.scheduling.rankers import Policy
from memspec_actors.telemetry.recorder import RequestRecorder

__all__ = ["Run", "Waiting"]


class Waiting(NamedTuple):
    """A request whose turn has not come."""

    generate: Generate
    recorder: RequestRecorder
    trace_id: str


@dataclass(slots=True)
class Run:
    """A request being decoded; ``ranking`` is the newest that has arrived, ``iteration`` the next one's number."""

    generate: Generate
    recorder: RequestRecorder
    policy: Policy
    session: DecodeSession
    ranking: DraftRanking | None = None
    interval: int = 0
    unranked_interval: int = -1  # the last one whose ranking was waited for in vain
    iteration: int = 0
    cancelled: bool = False

    @property
    def id(self) -> str:
        return self.generate.request.request_id

    @property
    def order(self) -> tuple[str, ...]:
        return self.ranking.order if self.ranking else ()

    @property
    def is_ranked(self) -> bool:
        """Tell whether the ranking of the current interval has arrived, or was given up."""
        newest = -1 if self.ranking is None else self.ranking.interval
        return max(newest, self.unranked_interval) >= self.interval

    def take_ranking(self, ranking: DraftRanking) -> None:
        self.ranking = ranking
        self.recorder.ranking(ranking)

    def scheduling_point(self, recent_tokens: int) -> SchedulingPoint:
        """Give the context at this moment, with the last ``recent_tokens`` generated tokens."""
        return SchedulingPoint(
            request_id=self.id,
            interval=self.interval,
            policy=self.policy.name,
            prompt_ids=self.generate.request.prompt_ids,
            recent_ids=tuple(self.session.generated[-recent_tokens:]),
        )

    def report(
        self, outcome: StepOutcome, draft: ResidentDraft | None, *, epoch: int, waited_us: float
    ) -> IterationReport:
        """Describe the iteration that ``draft`` has just run under the announcement ``epoch``."""
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
            waited_us=waited_us,
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
    ) -> None:
        resident = tuple(each.name for each in announced.resident)
        self.generate.sink.chunk(
            TextChunk(
                text=text, token_ids=token_ids, draft=draft, resident=resident, accepted=accepted, drafted=drafted
            )
        )
