"""Decide, while drafting, whether one more token is worth its time.

A rule lives with the session that drafts. What it compares with, its threshold, is worked out from verified tokens
elsewhere (`speculation.adaptation`) and handed to it between iterations.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memspec_actors.errors import ConfigError
from memspec_actors.speculation.criterion import (
    MAX_ADAPTIVE_TOKENS,
    MAX_GAIN_TOKENS,
    StopCriterion,
    goes_on,
    measured,
)
from memspec_actors.speculation.own_rules import own_rule

if TYPE_CHECKING:
    from memspec_actors.speculation.accept import Draw  # names of stop rules are checked where torch is not loaded yet

__all__ = [
    "ADAEDL_FIRST",
    "CONFIDENCE_FIRST",
    "GAIN_FIRST",
    "HEURISTIC_FIRST",
    "FixedLength",
    "StatedRule",
    "StopRule",
    "criterion_of",
    "stop_rule",
]

MAX_DIGITS = 9  # no draft is longer
CONFIDENCE_FIRST = 0.4  # AssistedGen's threshold before anything is verified
HEURISTIC_FIRST = 5.0
ADAEDL_FIRST = 0.8
ADAPTIVE = ("entropy", "confidence", "heuristic", "adaedl", "gain")
GAIN_FIRST = 0.5  # before anything is measured: draft while the token is more likely to count than not


@runtime_checkable
class StopRule(Protocol):
    """Say after each drafted token whether to draft another; a rule may hold state of its request."""

    @property
    def max_tokens(self) -> int:
        """Bound the tokens of one draft; 0 drafts nothing."""
        ...

    @property
    def reads_probs(self) -> bool:
        """Tell whether `signal` needs ``Draw.probs``; without it `signal` is not asked for."""
        ...

    def signal(self, draw: "Draw") -> float:
        """Return what this rule goes by: a number that tells how sure the draft is of the token."""
        ...

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        """Tell whether to draft on after ``num_drafted`` tokens; the last gave ``signal``, and is kept anyway."""
        ...

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        """Take what the tokens verified so far have taught."""
        ...


class StatedRule:
    """Do as a criterion says; what is learned are its threshold and its calibration."""

    def __init__(self, criterion: StopCriterion) -> None:
        self.criterion = criterion
        self._measure = 1.0

    @property
    def max_tokens(self) -> int:
        return self.criterion.max_tokens

    @property
    def reads_probs(self) -> bool:
        return self.criterion.signal != "none"

    def signal(self, draw: "Draw") -> float:
        from memspec_actors.speculation.signals import token_signal

        assert draw.probs is not None
        return token_signal(self.criterion.signal, draw.probs, draw.id)

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        self._measure = measured(self.criterion, 1.0 if num_drafted == 1 else self._measure, signal)
        return goes_on(self.criterion, num_drafted, self._measure)

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        self.criterion = self.criterion._replace(threshold=threshold, calibration=list(calibration) or None)


class FixedLength(StatedRule):
    """Always draft k tokens."""

    def __init__(self, k: int) -> None:
        super().__init__(StopCriterion(k))

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        pass


class _HeuristicLength(FixedLength):
    """Draft as many tokens as the threshold says: AssistedGen's older schedule."""

    def __init__(self) -> None:
        super().__init__(int(HEURISTIC_FIRST))

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        self.criterion = StopCriterion(int(threshold))


def criterion_of(rule: StopRule) -> StopCriterion | None:
    """Return all that a rule goes by at present; None for one that decides in a way of its own."""
    return (
        rule.criterion
        if isinstance(rule, StatedRule) and type(rule) in (StatedRule, FixedLength, _HeuristicLength)
        else None
    )


def stop_rule(spec: str) -> StopRule:
    """Return a new stop rule for one request from its name, as in ``fixed:5``.

    ``entropy``: AdaSD, until the entropy of the draft's distribution exceeds the mean entropy of rejected tokens.
    ``confidence``: AssistedGen, until a token's probability falls below a threshold that is fitted to what was
    accepted. ``heuristic``: two tokens more after a draft that was accepted whole, else one less. ``adaedl``: until a
    lower bound of the acceptance probability, 1 - sqrt(gamma H), falls below a threshold. ``gain``: while all
    tokens so far are accepted with such a probability that another one pays for drafting and verifying it, both as
    measured: there is nothing to set. ``module:Class``: a rule of the user's own. Raises ConfigError for anything else.
    """
    kind, _, argument = spec.partition(":")
    if kind == "fixed" and argument.isascii() and argument.isdigit() and len(argument) <= MAX_DIGITS:
        return FixedLength(int(argument))
    match spec:
        case "entropy":
            return StatedRule(StopCriterion(MAX_ADAPTIVE_TOKENS, "entropy", 0.0, at_most=True))
        case "confidence":
            return StatedRule(StopCriterion(MAX_ADAPTIVE_TOKENS, "confidence", CONFIDENCE_FIRST))
        case "adaedl":
            return StatedRule(StopCriterion(MAX_ADAPTIVE_TOKENS, "bound", ADAEDL_FIRST))
        case "heuristic":
            return _HeuristicLength()
        case "gain":
            return StatedRule(StopCriterion(MAX_GAIN_TOKENS, "confidence", GAIN_FIRST, chained=True))
    if kind != "fixed" and (rule := own_rule("stop", spec)) is not None:
        if not isinstance(rule, StopRule):
            raise ConfigError(f"stop is {spec!r}, but that is no stop rule: see {__name__}.StopRule")
        return rule
    known = f"fixed:K with a whole number K >= 0, as in 'fixed:5', {', '.join(ADAPTIVE)}, module:Class"
    near = get_close_matches(kind, ["fixed:5", *ADAPTIVE], n=1)
    raise ConfigError(f"stop is {spec!r}; known rules: {known}" + (f"; did you mean {near[0]!r}?" if near else ""))
