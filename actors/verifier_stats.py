"""The VerifierStats: what drafts achieved since the engine was opened, and what their rules can learn from it."""

from typing import assert_never

from memspec_actors.protocols.events import ThresholdsPublishedEvent
from memspec_actors.protocols.messages import (
    DecoderMessage,
    GetStatistics,
    IterationReport,
    SequenceStarted,
    ThresholdsPublished,
    VerifierStatsMessage,
)
from memspec_actors.protocols.results import Statistics
from memspec_actors.runtime import Actor, ActorRef
from memspec_actors.speculation.adaptation import Adaptations
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["VerifierStats"]


class VerifierStats(Actor[VerifierStatsMessage]):
    """Count every iteration and publish what it taught. ``counters`` and ``adaptations`` outlive a restart."""

    def __init__(
        self,
        counters: SpeculationCounters,
        adaptations: Adaptations,
        decoder: ActorRef[DecoderMessage],
        log: EventLog,
    ) -> None:
        self._counters = counters
        self._adaptations = adaptations
        self._decoder = decoder
        self._log = log

    async def receive(self, message: VerifierStatsMessage) -> Statistics | None:
        match message:
            case SequenceStarted():
                self._publish(self._adaptations.start(message))
                return None
            case IterationReport():
                if (thresholds := self._adaptations.observe(message)) is not None:
                    self._publish(thresholds)
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

    def _publish(self, thresholds: ThresholdsPublished) -> None:
        self._decoder.tell(thresholds)
        if self._log.enabled:
            self._log.write(
                ThresholdsPublishedEvent(
                    actor=self.name,
                    request_id=thresholds.request_id,
                    iteration=thresholds.iteration,
                    stop_threshold=thresholds.stop_threshold,
                    accepted_distances=None if thresholds.odds is None else thresholds.odds.num_accepted,
                    rejected_distances=None if thresholds.odds is None else thresholds.odds.num_rejected,
                )
            )
