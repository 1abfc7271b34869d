"""What one call of a decode session added to the text, and what it cost."""

from dataclasses import dataclass

from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.results import TokenLogprob
from memspec_actors.speculation.commit import Commit

__all__ = ["StepOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Tell what one call added and what it cost, in microseconds.

    Where a device drafts without being waited for, ``verify_us`` has the time of both.
    """

    commit: Commit
    drafted: int = 0
    accepted: int = 0
    departures: tuple[int, ...] = ()  # positions of accepted tokens that were not the target's own choice
    signals: tuple[float, ...] = ()  # of each drafted token
    distances: tuple[float, ...] = ()  # of each token that was judged and survived the cut, and of the rejected one
    catch_up_tokens: int = 0
    catch_up_us: float = 0.0
    draft_us: float = 0.0
    verify_us: float = 0.0
    logprobs: tuple[TokenLogprob, ...] | None = None  # one per committed token, if they were asked for
    shadows: tuple[Shadow, ...] = ()
