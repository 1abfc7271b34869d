"""Decide, while drafting, whether one more token is worth its time.

A rule lives with the session that drafts. What it compares with, its threshold, is worked out from verified tokens
elsewhere (`speculation.adaptation`) and handed to it between iterations.
"""

import math
import operator
from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memspec_actors.errors import ConfigError
from memspec_actors.speculation.own_rules import own_rule

if TYPE_CHECKING:
    from memspec_actors.speculation.accept import Draw  # names of stop rules are checked where torch is not loaded yet

__all__ = [
    "ADAEDL_FIRST",
    "CONFIDENCE_FIRST",
    "HEURISTIC_FIRST",
    "MAX_ADAPTIVE_TOKENS",
    "FixedLength",
    "Gain",
    "Length",
    "StopRule",
    "Threshold",
    "confidence_bin",
    "stop_rule",
]

MAX_DIGITS = 9  # no draft is longer
MAX_ADAPTIVE_TOKENS = 20  # AdaSD's window W and AssistedGen's limit
MAX_GAIN_TOKENS = 40  # what is worth it is measured; this bounds how long one iteration takes
CONFIDENCE_FIRST = 0.4  # AssistedGen's threshold before anything is verified
HEURISTIC_FIRST = 5.0
ADAEDL_FIRST, ADAEDL_GAMMA = 0.8, 0.2
NUM_CONFIDENCE_BINS, BINS_PER_BIT = 24, 2
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


class FixedLength:
    """Always draft k tokens."""

    reads_probs = False

    def __init__(self, k: int) -> None:
        self.max_tokens = k

    def signal(self, draw: "Draw") -> float:
        return 0.0

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        return num_drafted < self.max_tokens

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        pass


class Length(FixedLength):
    """Draft as many tokens as the threshold says: AssistedGen's older schedule."""

    def __init__(self) -> None:
        super().__init__(int(HEURISTIC_FIRST))

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        self.max_tokens = int(threshold)


class Threshold:
    """Draft on, up to a limit, while ``holds(signal, threshold)``; a signal that is no number stops."""

    reads_probs = True
    max_tokens = MAX_ADAPTIVE_TOKENS

    def __init__(
        self, signal: Callable[["Draw"], float], holds: Callable[[float, float], bool], threshold: float
    ) -> None:
        self.threshold = threshold
        self._signal = signal
        self._holds = holds

    def signal(self, draw: "Draw") -> float:
        return self._signal(draw)

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        return num_drafted < self.max_tokens and self._holds(signal, self.threshold)

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        self.threshold = threshold


class Gain:
    """Draft on while one more token is expected to raise the tokens decoded per second.

    The threshold is the least probability, that all tokens drafted so far are accepted, at which the next one still
    pays for drafting and verifying it; ``calibration`` gives the probability of acceptance by `confidence_bin`. Both
    come from what was measured, so there is nothing to set.
    """

    reads_probs = True
    max_tokens = MAX_GAIN_TOKENS

    def __init__(self) -> None:
        self._threshold = GAIN_FIRST
        self._calibration: tuple[float, ...] = ()
        self._survival = 1.0

    def signal(self, draw: "Draw") -> float:
        return _confidence(draw)

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        before = 1.0 if num_drafted == 1 else self._survival
        self._survival = before * (self._calibration[confidence_bin(signal)] if self._calibration else signal)
        return num_drafted < self.max_tokens and self._survival >= self._threshold

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        self._threshold, self._calibration = threshold, calibration


def confidence_bin(confidence: float) -> int:
    """Sort a probability into one of NUM_CONFIDENCE_BINS, finer towards 1: by the bits of what is missing from 1."""
    missing = max(1.0 - confidence, 2.0**-NUM_CONFIDENCE_BINS)
    return min(int(-math.log2(missing) * BINS_PER_BIT), NUM_CONFIDENCE_BINS - 1) if missing < 1.0 else 0


def stop_rule(spec: str) -> StopRule:
    """Return a new stop rule for one request from its name, as in ``fixed:5``.

    ``entropy``: AdaSD, until the entropy of the draft's distribution exceeds the mean entropy of rejected tokens.
    ``confidence``: AssistedGen, until a token's probability falls below a threshold that is fitted to what was
    accepted. ``heuristic``: two tokens more after a draft that was accepted whole, else one less. ``adaedl``: until a
    lower bound of the acceptance probability, 1 - sqrt(gamma H), falls below a threshold. ``gain``: see `Gain`.
    ``module:Class``: a rule of the user's own. Raises ConfigError for anything else.
    """
    kind, _, argument = spec.partition(":")
    if kind == "fixed" and argument.isascii() and argument.isdigit() and len(argument) <= MAX_DIGITS:
        return FixedLength(int(argument))
    match spec:
        case "entropy":
            return Threshold(_entropy, operator.le, 0.0)
        case "confidence":
            return Threshold(_confidence, operator.ge, CONFIDENCE_FIRST)
        case "adaedl":
            return Threshold(_acceptance_bound, operator.ge, ADAEDL_FIRST)
        case "heuristic":
            return Length()
        case "gain":
            return Gain()
    if kind != "fixed" and (rule := own_rule("stop", spec)) is not None:
        if not isinstance(rule, StopRule):
            raise ConfigError(f"stop is {spec!r}, but that is no stop rule: see {__name__}.StopRule")
        return rule
    known = f"fixed:K with a whole number K >= 0, as in 'fixed:5', {', '.join(ADAPTIVE)}, module:Class"
    near = get_close_matches(kind, ["fixed:5", *ADAPTIVE], n=1)
    raise ConfigError(f"stop is {spec!r}; known rules: {known}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _entropy(draw: "Draw") -> float:
    from memspec_actors.speculation.divergence import entropy

    assert draw.probs is not None
    return entropy(draw.probs)


def _confidence(draw: "Draw") -> float:
    assert draw.probs is not None
    return float(draw.probs[draw.id])


def _acceptance_bound(draw: "Draw") -> float:
    """AdaEDL's lower bound of the probability that the token is accepted."""
    return 1.0 - math.sqrt(ADAEDL_GAMMA * max(0.0, _entropy(draw)))
