"""What the runtime tells its observer."""

from dataclasses import dataclass

from memspec_actors.errors import SystemFailed

__all__ = ["Crashed", "DeadLetter", "Failed", "Restarted", "RuntimeEvent"]


@dataclass(frozen=True, slots=True)
class Crashed:
    """An actor died of ``error`` after ``restarts`` restarts; one that was ``stopping`` anyway is not restarted."""

    actor: str
    error: Exception
    restarts: int
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Restarted:
    """An actor runs again, ``backoff_s`` seconds after it crashed; this is restart number ``restarts``."""

    actor: str
    backoff_s: float
    restarts: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message reached an actor that was stopped, or was still queued when it stopped."""

    actor: str
    message_type: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An actor exceeded its restart limit, so the system stops."""

    actor: str
    error: SystemFailed


RuntimeEvent = Crashed | Restarted | DeadLetter | Failed
