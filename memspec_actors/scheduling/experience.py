"""What decoding has yet to tell the ranker of a text's iterations, and whether that calls for a new ranking."""

from collections import deque
from dataclasses import dataclass, field

from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.protocols.messages import IterationReport

__all__ = ["Experience"]


@dataclass(slots=True)
class Experience:
    """Remember a text's iterations until a ranking has taken them into account, if the ranker ``learns`` at all.

    ``has_news`` tells whether, before the last one, a draft that was ``asked`` told what it would have said.
    """

    learns: bool
    has_news: bool = False
    asked: set[str] = field(default_factory=set)  # drafts that were to read along and have not told yet
    _unobserved: deque[Feedback] = field(default_factory=deque)

    @property
    def unobserved(self) -> tuple[Feedback, ...]:
        """What no ranking has taken into account yet, in order."""
        return tuple(self._unobserved)

    def add(self, report: IterationReport, start: int, shadows: tuple[Shadow, ...]) -> None:
        """Take in an iteration before which ``start`` tokens had been generated."""
        heard = self.asked.intersection(shadow.draft for shadow in shadows)
        self.has_news = bool(heard)
        self.asked -= heard
        if self.learns:
            self._unobserved.append(
                Feedback(
                    iteration=report.iteration,
                    start=start,
                    draft=report.draft.name if report.draft else None,
                    drafted=report.drafted,
                    accepted=report.accepted,
                    emitted=report.emitted,
                    cost_us=report.catch_up_us + report.draft_us + report.verify_us,
                    catch_up_us=report.catch_up_us,
                    shadows=shadows,
                )
            )

    def forget(self, num_observed: int) -> None:
        """Forget the first iterations of the text, which a ranking has taken into account."""
        while self._unobserved and self._unobserved[0].iteration < num_observed:
            self._unobserved.popleft()
