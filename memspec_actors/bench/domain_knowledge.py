"""What ranking by the domain alone scores: all that can be known of a text, without luck.

Which of several drafts that are equally good in a domain has luck for a few iterations cannot be known beforehand.
"""

from pathlib import Path
from statistics import fmean

import numpy as np

from memspec_actors.errors import TraceError
from memspec_actors.predictor.examples import scheduling_points
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.predictor.utility import UtilityParams
from memspec_actors.scheduling.domain_plan import DomainOracle

__all__ = ["WINDOW", "domain_knowledge"]

WINDOW = 32  # tokens by which drafts are ranked: utilities are those of several intervals


def domain_knowledge(traces: Path, kind: str | None = None) -> dict[str, float]:
    """Give ``top1`` and ``top2`` (as `evaluate` does) of ranking by what `DomainOracle` expects.

    ``kind`` limits it to one kind of prompts. Raises TraceError for a text whose domains are unknown.
    """
    records = list(TraceReader(traces))
    for number, record in enumerate(records, 2):
        if not record.domains:
            raise TraceError(f"{traces}, line {number}: does not say which domains the text is in; collect it again")
    oracle = DomainOracle(records)
    hits: tuple[list[bool], list[bool]] = ([], [])
    for record in records:
        if kind in (None, record.kind):
            expected = oracle.expected(record, WINDOW)
            for point in scheduling_points(record, UtilityParams()):
                position = max(len(point.recent_ids), 1)
                order = np.argsort(-expected[:, position], kind="stable")
                for k, found in enumerate(hits, 1):
                    found.append(not point.labels.isdisjoint(order[:k].tolist()))
    return {f"top{k}": fmean(found) for k, found in enumerate(hits, 1)}
