"""What the event log says of an engine as a whole: how it starts and stops, and how its actors fare."""

from typing import assert_never

from memspec_actors import __version__
from memspec_actors.config import Config
from memspec_actors.loadout import Loadout
from memspec_actors.methods import choose
from memspec_actors.protocols import events
from memspec_actors.runtime import ActorSystem, Crashed, DeadLetter, Failed, Restarted, RuntimeEvent
from memspec_actors.scheduling.residency import Residency
from memspec_actors.telemetry.event_log import EventLog

__all__ = ["record_runtime", "record_start", "record_stop"]


def record_start(log: EventLog, config: Config, loadout: Loadout) -> None:
    """Record with what the engine starts, so that a log can be read without its configuration."""
    choice = choose(config)
    log.write(
        events.SystemStarted(
            actor="engine",
            version=__version__,
            target=str(loadout.checkpoint.path),
            drafts={name: plan.nbytes for name, plan in loadout.plans.items()},
            capacity=loadout.capacity,
            budget_bytes=loadout.budget_bytes,
            policy=choice.policy,
            stop_rule=choice.stop,
            accept=choice.accept,
            schedule_interval=config.schedule.interval,
            recent_tokens=config.schedule.recent_tokens,
            prediction=config.schedule.prediction,
            emulated_bandwidth=config.storage.bytes_per_second,
            dtype=loadout.weight_format,
            threads=config.target.num_threads,
            device=config.target.device,
        )
    )


def record_runtime(log: EventLog, event: RuntimeEvent) -> None:
    """Record an actor's crash or restart."""
    match event:
        case Crashed(actor, error, restarts, stopping):
            log.write(events.ActorCrashed(actor=actor, error=repr(error), restarts=restarts, stopping=stopping))
        case Restarted(actor, backoff_s, restarts):
            log.write(events.ActorRestarted(actor=actor, backoff_s=backoff_s, restarts=restarts))
        case Failed() | DeadLetter():
            pass  # the one is the reason that `record_stop` gives, the other was on its way while the system stopped
        case _:
            assert_never(event)


def record_stop(log: EventLog, residency: Residency, system: ActorSystem) -> None:
    """Record the end, with whatever it cuts short; nothing may be written after it."""
    for draft in residency.abandon_loads():
        log.write(events.DraftLoadCancelled(actor="engine", draft=draft, reserved_bytes=residency.reserved_bytes))
    log.write(
        events.SystemStopped(
            actor="engine",
            reason="closed" if system.failure is None else str(system.failure),
            records=log.records + 1,
            mailbox_peaks=system.mailbox_peaks(),
        )
    )
