"""What happened when: a log in spans and moments, for those who draw it."""

from typing import Literal

import msgspec

from memspec_actors.protocols.events import ShareKind

__all__ = ["DraftSpan", "DraftState", "Moment", "Ran", "Ranked", "Served", "Story"]

DraftState = Literal["loading", "warming", "resident", "revoked"]


class DraftSpan(msgspec.Struct, kw_only=True):
    """One state of one load of a draft; times are seconds since the story's beginning."""

    draft: str
    generation: int
    state: DraftState
    start: float
    end: float
    note: str = ""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One iteration; ``draft`` None is the target alone."""

    request: str
    iteration: int
    draft: str | None
    desired: str | None
    share: ShareKind
    start: float
    end: float
    drafted: int
    accepted: int
    emitted: int
    gap_us: float
    waited_us: float


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction, from its scheduling point's computation to its end."""

    request: str
    interval: int
    start: float
    end: float
    order: tuple[str, ...]
    scores: tuple[float | None, ...]


class Served(msgspec.Struct, kw_only=True):
    """One request, from its acceptance to its end; ``first_token`` None if it made none."""

    id: str
    policy: str
    start: float
    end: float
    first_token: float | None = None
    tokens: int = 0
    reason: str = "open"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at once: an announcement, an activation, a crash, a restart, a start of the system."""

    at: float
    actor: str
    kind: str
    text: str
    draft: str | None = None


class Story(msgspec.Struct, kw_only=True):
    """A log in spans and moments. ``began`` is the Unix time of second 0, ``end`` the last second told of."""

    began: float = 0.0
    end: float = 0.0
    drafts: list[DraftSpan] = msgspec.field(default_factory=list)
    iterations: list[Ran] = msgspec.field(default_factory=list)
    predictions: list[Ranked] = msgspec.field(default_factory=list)
    requests: list[Served] = msgspec.field(default_factory=list)
    moments: list[Moment] = msgspec.field(default_factory=list)

    @property
    def draft_names(self) -> list[str]:
        """Names of all drafts that were loaded, in the order in which they first were."""
        return list(dict.fromkeys(span.draft for span in self.drafts))
