"""The VerifierStats: what drafts achieved, over all requests since the engine was opened."""

from typing import assert_never

from memspec_actors.protocols.messages import GetStatistics, IterationReport, VerifierStatsMessage
from memspec_actors.protocols.results import Statistics
from memspec_actors.runtime import Actor
from memspec_actors.speculation.statistics import SpeculationCounters

__all__ = ["VerifierStats"]


class VerifierStats(Actor[VerifierStatsMessage]):
    """Count every iteration; nobody waits for it. ``counters`` outlive a restart of the actor."""

    def __init__(self, counters: SpeculationCounters) -> None:
        self._counters = counters

    async def receive(self, message: VerifierStatsMessage) -> Statistics | None:
        match message:
            case IterationReport():
                self._counters.add_report(message)
                return None
            case GetStatistics():
                return Statistics(
                    speculative_decoding=self._counters.metrics(),
                    share=self._counters.share(),
                    drafts=self._counters.drafts(),
                )
            case _:
                assert_never(message)
