"""The contract of everything that ranks drafts, and the ranker that needs no model."""

from typing import Protocol

import msgspec

from memspec_actors.protocols.feedback import Feedback

__all__ = ["Ranker", "Ranking", "RankingContext", "StaticRanker"]


class RankingContext(msgspec.Struct, frozen=True, kw_only=True):
    """Give what is known at a scheduling point.

    ``recent_ids`` are the last generated tokens and ``num_generated`` is the number of all of them; at most
    ``tokens_left`` may follow (None: unknown). ``resident`` drafts can run at once, and ``active`` is the one that ran
    last. ``unavailable`` ones would not be loaded: they failed, were unloaded, or pinned drafts take their room.
    """

    prompt_ids: tuple[int, ...]
    recent_ids: tuple[int, ...] = ()
    interval: int = 0
    num_generated: int = 0
    tokens_left: int | None = None
    resident: tuple[str, ...] = ()
    unavailable: tuple[str, ...] = ()
    active: str | None = None


class Ranking(msgspec.Struct, frozen=True):
    """Order drafts best first, each with its score; drafts left out are not to be used.

    Only the first ``depth`` are worth loading (None: as many as the policy lets be in memory). What those ``to_hear``,
    in memory but not at work, would have said of the text could change the order.
    """

    order: tuple[str, ...]
    scores: tuple[float, ...]
    depth: int | None = None
    to_hear: tuple[str, ...] = ()


class Ranker(Protocol):
    """Rank the drafts for the text to come, and learn from how the text went.

    Synchronous, without torch's or asyncio's state, and used by one thread at a time. One ranker serves one request
    unless its policy shares it; `observe` is called once for each iteration, in order, before the next `rank`.
    """

    def rank(self, context: RankingContext) -> Ranking: ...

    def observe(self, feedback: Feedback) -> None: ...


class StaticRanker:
    """Rank one draft first and leave out all others, whatever the context."""

    def __init__(self, draft: str) -> None:
        self._ranking = Ranking((draft,), (1.0,))

    def rank(self, context: RankingContext) -> Ranking:
        return self._ranking

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing."""
