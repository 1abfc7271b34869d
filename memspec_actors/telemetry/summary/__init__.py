"""Recompute every figure of a run from its event log."""

from memspec_actors.telemetry.summary.figures import (
    DomainSummary,
    DraftSummary,
    Prefetch,
    RequestSummary,
    Spread,
    Summary,
    TimeSpent,
)
from memspec_actors.telemetry.summary.summarizer import Summarizer, summarize

__all__ = [
    "DomainSummary",
    "DraftSummary",
    "Prefetch",
    "RequestSummary",
    "Spread",
    "Summarizer",
    "Summary",
    "TimeSpent",
    "summarize",
]
