"""What probabilities have been worth: how much faster the text came, the more probably the draft at work was right."""

from collections import defaultdict

__all__ = ["Calibration", "Calibrations"]


class Calibration:
    """Regress the speed of iterations on the probability of the draft that ran.

    ``gain`` is the share of the mean speed that a certainty adds to none: the slope over the mean, by ridge regression
    around FIRST. Where no draft fits the text better than another it falls to 0, and with it all reason to change.
    """

    FIRST = 0.5  # drafts made for the text are about twice as fast as others
    WEIGHT = 1.5  # (spread of an iteration's speed, half the mean, over the spread of gains, 0.4) ** 2

    def __init__(self) -> None:
        self._num = 0
        self._mean_p = self._mean_speed = self._pp = self._ps = 0.0

    def see(self, probability: float, speed: float) -> None:
        """Take in one iteration; the unit of ``speed`` does not matter."""
        self._num += 1
        p_off, speed_off = probability - self._mean_p, speed - self._mean_speed
        self._mean_p += p_off / self._num
        self._mean_speed += speed_off / self._num
        self._pp += p_off * (probability - self._mean_p)
        self._ps += p_off * (speed - self._mean_speed)

    @property
    def gain(self) -> float:
        """In [0, 1]."""
        if not self._num:
            return self.FIRST
        slope = (self.WEIGHT * self.FIRST + self._ps / self._mean_speed) / (self.WEIGHT + self._pp)
        return min(1.0, max(0.0, slope))


Calibrations = defaultdict[str, Calibration]  # by the draft that the predictor names first: the kind of text
