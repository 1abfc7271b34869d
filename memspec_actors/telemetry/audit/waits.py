"""Invariant 4: decoding does not stand still."""

from collections.abc import Iterator

from memspec_actors.protocols.events import (
    Event,
    Iteration,
    RequestAccepted,
    RequestFinished,
    ResidencyAnnouncedEvent,
    SystemStarted,
)
from memspec_actors.telemetry.audit.invariant import Finding, Invariant
from memspec_actors.telemetry.phrases import milliseconds

__all__ = ["NeverWaits"]


class NeverWaits(Invariant):
    """Look at the waits that iterations tell; ``num_exempt`` counts those that the configuration asks for.

    Inline prediction waits for its ranking, ``mab-sync`` for its ranking and its loads, and rules that learn in step
    for their thresholds, by definition.
    """

    number = 4
    rule = "after the first draft is up, decoding never waits for a load, a prediction or a statistic"

    def __init__(self) -> None:
        super().__init__()
        self.num_exempt = 0

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._accepted: dict[str | None, RequestAccepted] = {}
        self._is_up = False

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case RequestAccepted(request_id=request_id):
                self._accepted[request_id] = event
            case RequestFinished(request_id=request_id):
                self._accepted.pop(request_id, None)
            case ResidencyAnnouncedEvent(resident=resident):
                self._is_up |= bool(resident)
            case Iteration() if self._is_up:
                self.num_checked += 1
                if event.waited_us:
                    yield from self._check(event)
            case _:
                pass

    def _check(self, event: Iteration) -> Iterator[Finding]:
        accepted = self._accepted.get(event.request_id)
        if self.started is None or accepted is None:
            return  # how it was asked to decode was told before the log begins
        inline = self.started.prediction == "inline" and event.waited_for == "prediction"
        in_step = accepted.thresholds == "sync" and event.waited_for == "thresholds"
        if inline or in_step or accepted.policy.partition(":")[0] == "mab-sync":
            self.num_exempt += 1
        else:
            yield Finding(f"decoding waited {milliseconds(event.waited_us)} for a {event.waited_for}", (event,))
