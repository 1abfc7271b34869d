"""How sure a traced draft was of what it drafted, read off its free runs."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from memspec_actors.protocols.traces import FreeRun
from memspec_actors.speculation.signals import acceptance_bound

__all__ = ["RecordedSureness"]


class RecordedSureness:
    """Answer what stop rules ask, for a draft that was traced with its free runs."""

    def __init__(self, runs: Sequence[FreeRun]) -> None:
        self._runs = runs

    def signals(self, kind: str, position: int, num: int) -> list[float]:
        """Return the signals of up to ``num`` tokens that the draft goes on with from ``position`` of the text on.

        ``kind`` is as for `token_signal`. They end where the run was ended.
        """
        number = bisect_right(self._starts, position) - 1
        run, offset = self._runs[number], position - self._starts[number]
        recorded = run.confidences if kind == "confidence" else run.entropies
        floats: list[float] = np.frombuffer(recorded, "<f4")[offset : offset + num].tolist()
        return [acceptance_bound(nats) for nats in floats] if kind == "bound" else floats

    @cached_property
    def _starts(self) -> list[int]:
        return [run.start for run in self._runs]
