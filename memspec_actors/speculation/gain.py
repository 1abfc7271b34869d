"""What one more drafted token must promise to be worth its time, and how often such tokens are accepted."""

import math

from memspec_actors.protocols.messages import IterationReport
from memspec_actors.speculation.criterion import BINS_PER_BIT, NUM_CONFIDENCE_BINS, confidence_bin
from memspec_actors.speculation.stop import GAIN_FIRST

__all__ = ["GainEstimator"]


class GainEstimator:
    """Estimate the two things that the rule ``gain`` goes by.

    Decoding earns ``rate`` tokens per microsecond; one more drafted token costs its draft step and the slope of the
    verification's time over its width. So it pays if P(all so far accepted) * P(this one accepted) >= rate * cost: the
    stopping rule of a renewal process that maximises its reward rate. Probabilities by confidence start at face value,
    which weighs as much as one observation.
    """

    def __init__(self) -> None:
        self._tokens = self._judged = self._accepted = 0
        self._time_us = self._draft_us = 0.0
        self._drafted = 0
        self._verify = _Slope()
        self._hits = [_face_value(i) for i in range(NUM_CONFIDENCE_BINS)]
        self._trials = [1.0] * NUM_CONFIDENCE_BINS

    @property
    def threshold(self) -> float:
        slope = self._verify.slope
        if not self._accepted or slope is None:
            return GAIN_FIRST
        cost_us = self._draft_us / self._drafted + slope
        return self._tokens / self._time_us * cost_us / (self._accepted / self._judged)

    @property
    def calibration(self) -> tuple[float, ...]:
        return tuple(hits / trials for hits, trials in zip(self._hits, self._trials, strict=True))

    def observe(self, report: IterationReport) -> None:
        if not report.drafted:
            return
        self._tokens += report.emitted
        self._time_us += report.draft_us + report.verify_us
        self._draft_us += report.draft_us
        self._drafted += report.drafted
        self._verify.add(report.drafted, report.verify_us)
        judged = report.accepted + report.rejected
        self._judged += judged
        self._accepted += report.accepted
        for i, signal in enumerate(report.signals[:judged]):
            chosen = confidence_bin(signal)
            self._trials[chosen] += 1.0
            self._hits[chosen] += i < report.accepted


class _Slope:
    """Fit a line by least squares, point by point."""

    def __init__(self) -> None:
        self._count, self._mean_x, self._mean_y, self._xx, self._xy = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, x: float, y: float) -> None:
        self._count += 1
        delta = x - self._mean_x
        self._mean_x += delta / self._count
        self._mean_y += (y - self._mean_y) / self._count
        self._xx += delta * (x - self._mean_x)
        self._xy += delta * (y - self._mean_y)

    @property
    def slope(self) -> float | None:
        """The slope, at least 0; None while all x are alike."""
        return max(0.0, self._xy / self._xx) if self._xx > 0.0 else None


def _face_value(index: int) -> float:
    """Return the probability in the middle of a bin."""
    return 1.0 - math.pow(2.0, -(index + 0.5) / BINS_PER_BIT)
