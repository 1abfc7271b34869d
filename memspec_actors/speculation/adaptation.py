"""Learn thresholds from verified tokens: for each stop rule that has one, and for AdaSD's acceptance rule."""

import math
from typing import Protocol

from memspec_actors.protocols.messages import IterationReport, SequenceStarted, ThresholdsPublished
from memspec_actors.speculation.criterion import MAX_ADAPTIVE_TOKENS
from memspec_actors.speculation.gain import GainEstimator
from memspec_actors.speculation.odds import OddsEstimator
from memspec_actors.speculation.roc import RocThreshold
from memspec_actors.speculation.stop import ADAEDL_FIRST, HEURISTIC_FIRST

__all__ = [
    "Adaptation",
    "Adaptations",
    "AdaptiveLength",
    "BoundThreshold",
    "MeanRejectedEntropy",
    "ThresholdEstimator",
    "adapts",
]


class ThresholdEstimator(Protocol):
    """Follow the iterations of a sequence and say what its stop rule should go by now."""

    @property
    def threshold(self) -> float: ...

    @property
    def calibration(self) -> tuple[float, ...]: ...

    def observe(self, report: IterationReport) -> None: ...


class MeanRejectedEntropy:
    """AdaSD's T_G: the mean entropy of all rejected tokens, 0 before the first. Source: AdaSD, section 4.3."""

    calibration = ()

    def __init__(self) -> None:
        self._total = 0.0
        self._count = 0

    @property
    def threshold(self) -> float:
        return self._total / self._count if self._count else 0.0

    def observe(self, report: IterationReport) -> None:
        if report.rejected and not math.isnan(report.signals[report.accepted]):  # NaN: from a draft that went wrong
            self._total += report.signals[report.accepted]
            self._count += 1


class AdaptiveLength:
    """Two tokens more after a draft that was accepted whole, else one less; at least one. Source: AssistedGen."""

    calibration = ()

    def __init__(self) -> None:
        self.threshold = HEURISTIC_FIRST

    def observe(self, report: IterationReport) -> None:
        if report.drafted:
            step = 2 if report.accepted == report.drafted else -1
            self.threshold = float(min(max(1, self.threshold + step), MAX_ADAPTIVE_TOKENS))


class BoundThreshold:
    """AdaEDL's threshold: nudged so that the smoothed acceptance rate approaches its goal.

    A rate beyond the goal lowers it only if the draft ended before its limit. Source: Agrawal et al. 2024 with the
    update of Zhang et al. 2024, "Draft & Verify", section 3.4; constants and first threshold are those of its code.
    """

    calibration = ()

    GOAL, RATE_DECAY, THRESHOLD_DECAY, STEP = 0.9, 0.5, 0.9, 0.01

    def __init__(self) -> None:
        self.threshold = ADAEDL_FIRST
        self._rate = 0.0

    def observe(self, report: IterationReport) -> None:
        if not report.drafted:
            return
        rate = report.accepted / report.drafted
        self._rate = self.RATE_DECAY * self._rate + (1 - self.RATE_DECAY) * rate
        if self._rate < self.GOAL:
            nudged = self.threshold + self.STEP
        elif report.drafted < MAX_ADAPTIVE_TOKENS:
            nudged = self.threshold - self.STEP
        else:
            nudged = self.threshold
        self.threshold = self.THRESHOLD_DECAY * self.threshold + (1 - self.THRESHOLD_DECAY) * nudged


_ESTIMATORS: dict[str, type[ThresholdEstimator]] = {
    "entropy": MeanRejectedEntropy,
    "confidence": RocThreshold,
    "heuristic": AdaptiveLength,
    "adaedl": BoundThreshold,
    "gain": GainEstimator,
}


_LEARNS = "bayes"  # the acceptance rule that does


def adapts(stop_rule: str, accept: str) -> bool:
    """Tell whether either rule learns from what was verified."""
    return stop_rule in _ESTIMATORS or accept == _LEARNS


class Adaptation:
    """Hold all that is learned for one sequence, or for all that share it."""

    def __init__(self, stop_rule: str, accept: str) -> None:
        estimator = _ESTIMATORS.get(stop_rule)
        self.stop = estimator() if estimator else None
        self.odds = OddsEstimator() if accept == _LEARNS else None

    def observe(self, report: IterationReport) -> None:
        """Learn from one iteration; one without a draft teaches nothing."""
        if self.stop is not None:
            self.stop.observe(report)
        if self.odds is not None:
            for i, distance in enumerate(report.distances):
                self.odds.add(distance, accepted=i < report.accepted)

    def thresholds(self, request_id: str, iteration: int) -> ThresholdsPublished:
        """Return what holds after ``iteration`` (-1: before the first)."""
        return ThresholdsPublished(
            request_id=request_id,
            iteration=iteration,
            stop_threshold=None if self.stop is None else self.stop.threshold,
            calibration=() if self.stop is None else self.stop.calibration,
            odds=None if self.odds is None else self.odds.snapshot(),
        )


class Adaptations:
    """Keep what is learned for the sequence at hand; it starts afresh, or goes on with what is ``shared``."""

    def __init__(self, *, shared: bool = False) -> None:
        self._shared: dict[tuple[str, str], Adaptation] | None = {} if shared else None
        self._request_id: str | None = None
        self.current: Adaptation | None = None

    def start(self, sequence: SequenceStarted) -> ThresholdsPublished:
        """Turn to a new sequence and return what holds for it."""
        rules = sequence.stop_rule, sequence.accept
        self._request_id = sequence.request_id
        self.current = (
            Adaptation(*rules) if self._shared is None else self._shared.setdefault(rules, Adaptation(*rules))
        )
        return self.current.thresholds(sequence.request_id, -1)

    def observe(self, report: IterationReport) -> ThresholdsPublished | None:
        """Learn from an iteration; None if it belongs to a sequence whose rules do not learn."""
        if self.current is None or report.request_id != self._request_id:
            return None
        self.current.observe(report)
        return self.current.thresholds(report.request_id, report.iteration)
