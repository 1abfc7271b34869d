"""AssistedGen's confidence threshold: the best point of the ROC curve of what was verified."""

import numpy as np
import numpy.typing as npt

from memspec_actors.protocols.messages import IterationReport
from memspec_actors.speculation.stop import CONFIDENCE_FIRST

__all__ = ["RocThreshold"]

MIN_SAMPLES = 6
MISS_COST = 3  # stopping before a token that would be accepted, over drafting one that is rejected


class RocThreshold:
    """Choose the threshold that minimises false positive rate + 3 false negative rate over all verified tokens.

    A token counts as predicted to be accepted if its confidence is at least the threshold; of several best thresholds
    the highest is taken. Until there are six tokens, of both kinds, the threshold stays. Source: Hugging Face's
    AssistedGen with its dynamic schedule.
    """

    calibration = ()

    def __init__(self) -> None:
        self.threshold = CONFIDENCE_FIRST
        self._confidences: npt.NDArray[np.float64] = np.empty(0)  # descending
        self._accepted: npt.NDArray[np.bool_] = np.empty(0, dtype=bool)

    def observe(self, report: IterationReport) -> None:
        judged = report.accepted + report.rejected
        self._insert(np.array(report.signals[:judged]), np.arange(judged) < report.accepted)
        num, positives = len(self._accepted), int(self._accepted.sum())
        if num >= MIN_SAMPLES and 0 < positives < num:
            self.threshold = self._best(positives, num - positives)

    def _insert(self, confidences: npt.NDArray[np.float64], accepted: npt.NDArray[np.bool_]) -> None:
        order = np.argsort(-confidences, kind="stable")
        at = np.searchsorted(-self._confidences, -confidences[order])
        self._confidences = np.insert(self._confidences, at, confidences[order])
        self._accepted = np.insert(self._accepted, at, accepted[order])

    def _best(self, positives: int, negatives: int) -> float:
        last_of_equals = np.append(self._confidences[1:] != self._confidences[:-1], True)
        hits = np.cumsum(self._accepted)
        false_alarms = np.arange(1, len(hits) + 1) - hits
        # both rates times positives * negatives: whole numbers, so that equal costs are equal
        costs = false_alarms * positives + MISS_COST * (positives - hits) * negatives
        costs[~last_of_equals] = np.iinfo(costs.dtype).max
        return float(self._confidences[costs.argmin()])
