"""How drafts are ranked, and which policies there are."""

import difflib
from collections.abc import Sequence
from typing import Protocol

import msgspec

from memspec_actors.errors import ConfigError

__all__ = ["Policy", "Ranker", "Ranking", "RankingContext", "StaticRanker", "parse_policy"]

GENERAL_DRAFT = "general"
KNOWN_POLICIES = ("memspec", "general-static", "static:NAME", "target-only")


class RankingContext(msgspec.Struct, frozen=True, kw_only=True):
    """Give what is known at a scheduling point: the prompt and the last generated tokens (none at interval 0)."""

    prompt_ids: tuple[int, ...]
    recent_ids: tuple[int, ...] = ()
    interval: int = 0


class Ranking(msgspec.Struct, frozen=True):
    """Order drafts best first, each with its score; drafts left out are not to be used."""

    order: tuple[str, ...]
    scores: tuple[float, ...]


class Ranker(Protocol):
    """Rank the drafts for the text to come."""

    def rank(self, context: RankingContext) -> Ranking: ...


class StaticRanker:
    """Rank one draft first and leave out all others, whatever the context."""

    def __init__(self, draft: str) -> None:
        self._ranking = Ranking((draft,), (1.0,))

    def rank(self, context: RankingContext) -> Ranking:
        return self._ranking


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Say how a policy ranks: with the trained predictor, with one fixed draft, or not at all."""

    name: str
    static_draft: str | None = None
    uses_predictor: bool = False
    uses_drafts: bool = True


def parse_policy(text: str, draft_names: Sequence[str]) -> Policy:
    """Read a policy's name.

    ``memspec`` ranks with the predictor; ``static:NAME`` keeps to one draft and ``general-static`` to the one named
    "general"; ``target-only`` uses no draft. Raises ConfigError for anything else, naming the nearest and all known.
    """
    match text.partition(":"):
        case ("memspec", "", _):
            return Policy(name=text, uses_predictor=True)
        case ("general-static", "", _):
            return _static(text, GENERAL_DRAFT, draft_names)
        case ("static", ":", name):
            return _static(text, name, draft_names)
        case ("target-only", "", _):
            return Policy(name=text, uses_drafts=False)
    concrete = ["memspec", "general-static", "target-only", *(f"static:{name}" for name in draft_names)]
    raise ConfigError(f"unknown policy {text!r}{_nearest(text, concrete)}; known: {', '.join(KNOWN_POLICIES)}")


def _static(text: str, name: str, draft_names: Sequence[str]) -> Policy:
    if name not in draft_names:
        known = ", ".join(f"static:{known}" for known in draft_names) or "no drafts are configured"
        near = _nearest(name, draft_names)
        raise ConfigError(f"policy {text!r} needs a draft named {name!r}{near}; possible: {known}")
    return Policy(name=text, static_draft=name)


def _nearest(text: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
