"""Every error this package raises on purpose.

    MemSpecError
    ├── UsageError                   the caller can put it right; the command line exits with 2
    │   ├── ConfigError              memspec.toml or a Config: names the key, the value and what is expected
    │   ├── InvalidRequest           a generation request that cannot be served as asked
    │   ├── CheckpointError          a model directory that is missing, damaged or of an unknown kind: names the file
    │   ├── IncompatibleDraft        a draft that cannot work with the target: names the first difference
    │   └── TraceError               a trace, predictor or prompt file that cannot be used: names the file and the line
    ├── Overloaded                   a bounded queue is full; try again later
    │   └── MailboxFull              an actor's mailbox: names it; the message was not taken
    ├── ActorError                   the actor runtime
    │   ├── ActorDied                the actor that should have answered crashed or stopped: names it
    │   ├── AskTimeout               no answer within the deadline
    │   └── SystemFailed             an actor exceeded its restart limit, the system stopped: names it and says why
    ├── InvalidLogits                a model's output holds no probability distribution (NaN, infinity): names the row
    ├── DeviceFull                   a device's memory is used up; what is in it stays as it is
    ├── LoadError                    draft weights could not be loaded; the draft is quarantined, generation goes on
    └── EngineClosed                 the engine was closed while the request ran or before it came

A message names the thing, its value, and what to do about it, in one line.
"""

__all__ = [
    "ActorDied",
    "ActorError",
    "AskTimeout",
    "CheckpointError",
    "ConfigError",
    "DeviceFull",
    "EngineClosed",
    "IncompatibleDraft",
    "InvalidLogits",
    "InvalidRequest",
    "LoadError",
    "MailboxFull",
    "MemSpecError",
    "Overloaded",
    "SystemFailed",
    "TraceError",
    "UsageError",
    "first_line",
]


class MemSpecError(Exception):
    """Base of every error that this package raises on purpose."""


class UsageError(MemSpecError):
    """Something the caller gave cannot be used; the message says what and how to put it right."""


class ConfigError(UsageError):
    """A configuration key or value is wrong."""


class InvalidRequest(UsageError):
    """A generation request cannot be served as asked."""


class CheckpointError(UsageError):
    """A model directory is missing, damaged, or of a kind that cannot be read."""


class IncompatibleDraft(UsageError):
    """A draft cannot work with the target."""


class TraceError(UsageError):
    """A trace, predictor or prompt file cannot be used."""


class Overloaded(MemSpecError):
    """A bounded queue is full."""


class MailboxFull(Overloaded):
    """A mailbox is full; the message was not taken."""


class ActorError(MemSpecError):
    """Base of the actor runtime's errors."""


class ActorDied(ActorError):
    """The actor that should have answered crashed or was stopped."""


class AskTimeout(ActorError):
    """An ask was not answered within its deadline."""


class SystemFailed(ActorError):
    """An actor exceeded its restart limit, so the whole system was stopped."""


class InvalidLogits(MemSpecError):
    """A model's output holds no probability distribution."""


class DeviceFull(MemSpecError):
    """A device has no memory left for what was asked."""


class LoadError(MemSpecError):
    """Draft weights could not be loaded."""


class EngineClosed(MemSpecError):
    """The engine is closed."""


def first_line(error: BaseException) -> str:
    """Return what to quote of somebody else's error in one line of ours: its first line, or else its kind."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
