"""Measure several things in turns, so that whatever else the machine does meets all of them alike."""

import statistics
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Spread", "in_turns", "ratio", "spread"]

Spread = dict[str, float]  # median, least, largest


def in_turns(rounds: int, variants: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measure each variant once a round, in an order that is turned round every time."""
    found: dict[str, list[float]] = {name: [] for name in variants}
    for index in range(rounds):
        for name in list(variants)[:: -1 if index % 2 else 1]:
            found[name].append(variants[name]())
    return found


def spread(values: Sequence[float]) -> Spread:
    """Return the median of what was measured in all rounds, and what it lies between."""
    return {"median": statistics.median(values), "least": min(values), "largest": max(values)}


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Return the ratio of what was measured in the same round."""
    return spread([a / b for a, b in zip(over, under, strict=True)])
