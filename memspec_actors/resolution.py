"""Settle what a request runs with: its rules, whether they learn, and whether the text stays the target's own."""

import logging
from typing import Literal, NamedTuple

from memspec_actors.methods import Choice
from memspec_actors.speculation.adaptation import adapts
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule

__all__ = ["LossNotes", "Resolved", "resolve"]

_LOGGER = logging.getLogger(__name__)


class Resolved(NamedTuple):
    """What a request runs with, as its GenerationRequest says it."""

    policy: str
    stop_rule: str
    accept: str
    lossless: bool
    thresholds: Literal["fixed", "sync", "async"]
    draft_alone: str | None


def resolve(choice: Choice, *, greedy: bool, thresholds: Literal["auto", "sync", "async"]) -> Resolved:
    """Settle the rules of a choice; ``thresholds`` is the configured way of rules that learn.

    Raises ConfigError for a rule that does not exist.
    """
    stop_rule(choice.stop)
    rule = acceptance_rule(choice.accept, greedy=greedy)
    settled: Literal["fixed", "sync", "async"] = "fixed"
    if adapts(choice.stop, rule.name):
        # Under exact and match the text is the same whatever the thresholds: nothing is worth waiting for.
        automatic: Literal["sync", "async"] = "async" if rule.name in ("exact", "match") else "sync"
        settled = automatic if thresholds == "auto" else thresholds
    return Resolved(
        policy=choice.policy,
        stop_rule=choice.stop,
        accept=rule.name,
        lossless=rule.lossless and choice.draft_alone is None,
        thresholds=settled,
        draft_alone=choice.draft_alone,
    )


class LossNotes:
    """Say once, for each way of it, that a text may not be the target's own."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def note(self, resolved: Resolved) -> None:
        """Log a warning if this is the first request that is lossy in this way."""
        if resolved.lossless:
            return
        note = (
            f"accept {resolved.accept!r} is lossy: the text may differ from the target's own"
            if resolved.draft_alone is None
            else f"draft {resolved.draft_alone!r} decodes alone: the text is its own, not the target's"
        )
        if note not in self._said:
            self._said.add(note)
            _LOGGER.warning("%s", note)
