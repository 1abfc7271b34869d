"""Invariant 7: what follows a crash."""

from collections.abc import Iterator

from memspec_actors.protocols.events import (
    ActorCrashed,
    ActorRestarted,
    Event,
    RequestFinished,
    SystemStarted,
)
from memspec_actors.telemetry.audit.invariant import Finding, Invariant

__all__ = ["ActorsRestarted"]

RESTART_DEADLINE_S = 15.0  # the longest back-off, and time for what the crashed actor leaves to be cleaned up


class ActorsRestarted(Invariant):
    """Expect every actor but the Decoder to come back soon, and not to be heard of before it has."""

    number = 7
    rule = "if any actor but the Decoder dies, generation goes on and the actor is restarted"

    def begin(self, started: SystemStarted | None) -> None:
        super().begin(started)
        self._down: dict[str, ActorCrashed] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        match event:
            case ActorCrashed(actor=actor, stopping=True):
                self._down.pop(actor, None)
            case ActorCrashed(actor=actor):
                self._down[actor] = event
            case ActorRestarted(actor=actor):
                self.num_checked += 1
                if self._down.pop(actor, None) is None and self.whole:
                    yield Finding(f"{actor} was restarted, but had not crashed", (event,))
            case _:
                yield from self._check(event)

    def _check(self, event: Event) -> Iterator[Finding]:
        for actor, crash in list(self._down.items()):
            if actor == "decoder":
                continue
            if event.actor == actor:
                what = f"{actor} went on after its crash, but was not restarted"
            elif event.mono - crash.mono > RESTART_DEADLINE_S:
                what = f"{actor} was not restarted within {RESTART_DEADLINE_S:g} s"
            elif isinstance(event, RequestFinished) and f"actor {actor!r}" in (event.error or ""):
                what = f"the crash of {actor} ended a request"
            else:
                continue
            del self._down[actor]
            yield Finding(what, (crash, event))
