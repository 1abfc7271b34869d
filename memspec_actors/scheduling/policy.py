"""Which policies there are: each is a piece of data that the engine and the simulator go by alike."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from memspec_actors.errors import ConfigError

__all__ = ["Policy", "RankedBy", "parse_policy"]

GENERAL_DRAFT = "general"

RankedBy = Literal["nothing", "one draft", "predictor", "ucb", "exp3", "hedge", "overruled predictor", "plan"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Say how drafts are scheduled.

    ``ranked_by`` says what ranks them; "nothing" uses no draft, "one draft" keeps to ``static_draft``, and a "plan" was
    made by one who knew the text. With ``prefetches`` the best K drafts of a ranking are brought into memory ahead of
    need, without it only the first. With ``waits_for_load`` decoding stands still until the first-ranked draft is
    resident. A policy that ``learns`` is told how every iteration went; with ``shared`` all requests teach the same
    ranker. With ``reads_along`` the resident drafts that are not at work are brought up to date at every scheduling
    point: what they predict on the way is told too, and a switch to one of them has less to catch up on. A policy that
    ``hears`` lets those do so that a ranking asks to hear, and ranks anew as soon as they were heard.

    ``exploration`` is UCB's c, ``mixing`` Exp3's gamma, ``discount`` Hedge's, per token.
    """

    name: str
    ranked_by: RankedBy
    static_draft: str | None = None
    prefetches: bool = True
    waits_for_load: bool = False
    learns: bool = False
    shared: bool = False
    reads_along: bool = False
    hears: bool = False
    exploration: float = 2.0
    mixing: float = 0.2
    discount: float = 0.95

    @property
    def uses_drafts(self) -> bool:
        return self.ranked_by != "nothing"

    @property
    def uses_predictor(self) -> bool:
        return self.ranked_by in ("predictor", "overruled predictor")

    @property
    def watches_catch_up(self) -> bool:
        """Tell whether it matters what drafts say while they are brought up to date."""
        return self.reads_along or self.hears

    @property
    def needs_plan(self) -> bool:
        return self.ranked_by == "plan"

    @property
    def depth(self) -> int | None:
        """How many of the first-ranked drafts are to be in memory; None is as many as fit."""
        return None if self.prefetches else 1


_BANDIT = {"prefetches": False, "learns": True}
_POLICIES: dict[str, Mapping[str, object]] = {
    "memspec": {"ranked_by": "predictor"},
    "prediction-only": {"ranked_by": "predictor", "prefetches": False},
    "mab-sync": {"ranked_by": "ucb", "waits_for_load": True, **_BANDIT},
    "mab-async": {"ranked_by": "ucb", **_BANDIT},
    "mab-exp3": {"ranked_by": "exp3", **_BANDIT},
    "hedge": {"ranked_by": "hedge", "learns": True, "reads_along": True},
    "memspec+": {"ranked_by": "overruled predictor", "learns": True, "hears": True},
    "oracle-static": {"ranked_by": "plan"},
    "domain-oracle": {"ranked_by": "plan"},
    "oracle-dynamic": {"ranked_by": "plan"},
    "target-only": {"ranked_by": "nothing"},
}
_KNOWN = (*_POLICIES, "general-static", "static:NAME")


def parse_policy(text: str, draft_names: Sequence[str]) -> Policy:
    """Read a policy: a name, and for some of them options, as in ``mab-async:c=1.0,shared``.

    ``static:NAME`` keeps to one draft and ``general-static`` to the one named "general". Raises ConfigError for
    anything else, naming what is wrong, the nearest and all known.
    """
    name, colon, rest = text.partition(":")
    if text == "general-static":
        return _static(text, GENERAL_DRAFT, draft_names)
    if name == "static" and colon:
        return _static(text, rest, draft_names)
    if name not in _POLICIES:
        concrete = [*_POLICIES, "general-static", *(f"static:{draft}" for draft in draft_names)]
        raise ConfigError(f"unknown policy {text!r}{_nearest(text, concrete)}; known: {', '.join(_KNOWN)}")
    policy = msgspec.convert({"name": text, **_POLICIES[name]}, Policy)
    return _with_options(policy, rest.split(",")) if colon else policy


def _static(text: str, name: str, draft_names: Sequence[str]) -> Policy:
    if name not in draft_names:
        known = ", ".join(f"static:{known}" for known in draft_names) or "no drafts are configured"
        near = _nearest(name, draft_names)
        raise ConfigError(f"policy {text!r} needs a draft named {name!r}{near}; possible: {known}")
    return Policy(name=text, ranked_by="one draft", static_draft=name)


def _at_least_0(value: float) -> bool:
    return 0.0 <= value < math.inf


def _share(value: float) -> bool:
    return 0.0 < value <= 1.0


# key -> (field, what a value must be, in words)
_NUMBERS: dict[str, tuple[str, Callable[[float], bool], str]] = {
    "c": ("exploration", _at_least_0, "a number >= 0"),
    "gamma": ("mixing", _share, "a number in (0, 1]"),
    "discount": ("discount", _share, "a number in (0, 1]"),
}
_OPTIONS_OF: dict[RankedBy, tuple[str, ...]] = {
    "ucb": ("c", "shared"),
    "exp3": ("gamma", "shared"),
    "hedge": ("discount",),
}


def _with_options(policy: Policy, options: Sequence[str]) -> Policy:
    known = _OPTIONS_OF.get(policy.ranked_by, ())
    changes: dict[str, float | bool] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key not in known or (key not in _NUMBERS and option != key):
            possible = ", ".join(known) or "none"
            raise ConfigError(
                f"policy {policy.name!r}: unknown option {option!r}{_nearest(key, known)}; possible: {possible}"
            )
        if key in _NUMBERS:
            field, holds, expected = _NUMBERS[key]
            changes[field] = _number(policy.name, option, value, holds, expected)
        else:
            changes[key] = True
    return msgspec.structs.replace(policy, **changes)


def _number(policy: str, option: str, value: str, holds: Callable[[float], bool], expected: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not holds(number):
        raise ConfigError(f"policy {policy!r}: {option!r} must give {expected}")
    return number


def _nearest(text: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
