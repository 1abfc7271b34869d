"""A stop rule stated as data, so that whoever drafts can follow it: a loop in Python or TorchScript.

Functions of module level are TorchScript as well as Python. It knows no globals, hence the defaults; and its max and
min choose otherwise than Python's where one is no number, hence the comparisons.
"""

import math
from typing import NamedTuple

__all__ = [
    "BINS_PER_BIT",
    "MAX_ADAPTIVE_TOKENS",
    "MAX_GAIN_TOKENS",
    "NUM_CONFIDENCE_BINS",
    "StopCriterion",
    "confidence_bin",
    "goes_on",
    "measured",
    "resumed",
]

MAX_ADAPTIVE_TOKENS = 20  # AdaSD's window W and AssistedGen's limit
MAX_GAIN_TOKENS = 40  # what is worth it is measured; this bounds how long one iteration takes
NUM_CONFIDENCE_BINS, BINS_PER_BIT = 24, 2


class StopCriterion(NamedTuple):
    """Draft on, up to ``max_tokens``, while a measure is at least ``threshold``, or ``at_most`` that.

    The measure is the last token's signal: ``none`` (always 0, and nothing is read), ``confidence``, ``entropy`` or
    ``bound``, see `speculation.signals`. If ``chained``, it is the product of all tokens' signals so far, each replaced
    by what ``calibration``, if any, has for its `confidence_bin`, and of ``before``, what earlier tokens came to. A
    measure that is no number ends the draft.
    """

    max_tokens: int
    signal: str = "none"
    threshold: float = 0.0
    at_most: bool = False
    chained: bool = False
    calibration: list[float] | None = None
    before: float = 1.0


def resumed(criterion: StopCriterion, num_drafted: int, measure: float) -> StopCriterion:
    """Return by what to draft on after ``num_drafted`` tokens that came to this measure."""
    return criterion._replace(max_tokens=criterion.max_tokens - num_drafted, before=measure)


def measured(criterion: StopCriterion, before: float, signal: float) -> float:
    """Return the measure after a token that gave ``signal``; ``before`` it was so much, and 1 before the first."""
    if not criterion.chained:
        return signal
    calibration = criterion.calibration
    if calibration is None or math.isnan(signal):
        return before * signal
    return before * calibration[confidence_bin(signal)]


def goes_on(criterion: StopCriterion, num_drafted: int, measure: float) -> bool:
    """Tell whether to draft another token."""
    holds = measure <= criterion.threshold if criterion.at_most else measure >= criterion.threshold
    return holds and num_drafted < criterion.max_tokens


def confidence_bin(confidence: float, num_bins: int = NUM_CONFIDENCE_BINS, per_bit: int = BINS_PER_BIT) -> int:
    """Sort a probability into one of ``num_bins``, finer towards 1: by the bits of what is missing from 1.

    The first bin takes what is no number, too.
    """
    missing = 1.0 - confidence
    if missing <= 2.0 ** (-(num_bins - 1) / per_bit):
        return num_bins - 1
    return int(-math.log(missing) / math.log(2.0) * per_bit) if missing < 1.0 else 0
