"""Estimate how likely a distance is among those seen: a Gaussian kernel density that grows sample by sample."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Density", "DensityEstimator"]

Floats = npt.NDArray[np.float64]

MAX_POINTS = 6144  # kept one by one; then they are gathered on a grid, so that a look-up never costs more
GRID_POINTS = 4096  # over [0, 1]


@dataclass(frozen=True, slots=True)
class Density:
    """Show an estimator at one moment: its points with their weights, and the moments of all samples."""

    points: Floats  # (n,)
    weights: Floats  # (n,)
    count: int
    mean: float
    square_sum: float  # of differences from the mean

    def __call__(self, at: float, extra: Sequence[float] = ()) -> float | None:
        """Return the density at ``at``, the few ``extra`` samples counted in; None if it is undefined.

        Bandwidth by Scott's rule: n ** (-1/5) standard deviations. Undefined for fewer than two samples or without
        variance. Source: Silverman 1986; the same estimate as scipy.stats.gaussian_kde.
        """
        count, _, square_sum = _moments(self.count, self.mean, self.square_sum, extra)
        if count < 2 or square_sum <= 0.0:
            return None
        bandwidth = math.sqrt(square_sum / (count - 1)) * math.pow(count, -0.2)
        total = float(self.weights @ _kernel(self.points - at, bandwidth))
        total += math.fsum(math.exp(-0.5 * ((each - at) / bandwidth) ** 2) for each in extra)
        return total / (count * bandwidth * math.sqrt(2.0 * math.pi))


class DensityEstimator:
    """Collect samples in [0, 1]. A snapshot costs nothing: it is a view of memory that is only ever appended to."""

    def __init__(self) -> None:
        self._points = np.empty(64)
        self._weights = np.ones(64)
        self._used = 0
        self._count, self._mean, self._square_sum = 0, 0.0, 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, sample: float) -> None:
        """Take one more sample."""
        if self._used == len(self._points):
            self._make_room()
        self._points[self._used] = sample
        self._used += 1
        self._count, self._mean, self._square_sum = _moments(self._count, self._mean, self._square_sum, (sample,))

    def samples(self) -> list[float]:
        """Return the samples in the order in which they came; gathered ones come first, as points of the grid."""
        samples: list[float] = self._points[: self._used].tolist()
        return samples

    def snapshot(self) -> Density:
        """Return the density of all samples so far."""
        return Density(
            self._points[: self._used], self._weights[: self._used], self._count, self._mean, self._square_sum
        )

    def _make_room(self) -> None:
        """Move to new memory, twice as large, or with the points gathered on the grid."""
        points, weights = self._points, self._weights
        if self._used >= MAX_POINTS:
            points, weights = _gathered(points, weights)
            self._used = len(points)
        size = min(MAX_POINTS, 2 * len(points))
        self._points, self._weights = np.empty(size), np.ones(size)
        self._points[: self._used] = points
        self._weights[: self._used] = weights


def _kernel(differences: Floats, bandwidth: float) -> Floats:
    """Turn differences into the kernel's values, in their own memory."""
    np.square(differences, out=differences)
    differences *= -0.5 / bandwidth**2
    return np.exp(differences, out=differences)


def _moments(count: int, mean: float, square_sum: float, samples: Sequence[float]) -> tuple[int, float, float]:
    """Add samples to a count, a mean and a sum of squared differences from it (Welford 1962)."""
    for sample in samples:
        count += 1
        delta = sample - mean
        mean += delta / count
        square_sum += delta * (sample - mean)
    return count, mean, square_sum


def _gathered(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Share every point between the two grid points around it, the nearer one getting more (linear binning)."""
    steps = points * (GRID_POINTS - 1)
    left = np.minimum(steps.astype(np.int64), GRID_POINTS - 2)
    share = steps - left
    mass: Any = np.bincount(left, weights * (1.0 - share), GRID_POINTS)
    mass += np.bincount(left + 1, weights * share, GRID_POINTS)
    (occupied,) = mass.nonzero()
    return occupied / (GRID_POINTS - 1), mass[occupied]
