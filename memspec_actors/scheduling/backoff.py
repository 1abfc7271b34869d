"""How long a draft whose load failed is left alone."""

import math

import msgspec

__all__ = ["Backoff", "Quarantine"]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Wait ``first_s`` seconds after the first failure, ``factor`` times longer after each further, up to ``max_s``."""

    first_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0

    def delay_s(self, num_failures: int) -> float:
        """Return the wait after the given number of failures in a row (at least 1)."""
        # The exponent is capped: a draft that never loads must not overflow a float after a thousand failures.
        return min(self.max_s, self.first_s * self.factor ** min(num_failures - 1, 64))


class Quarantine:
    """Remember which drafts must not be loaded until when, and why; a reason without an end stays for ever."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._num_failures: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._until

    def holds(self, name: str, now: float) -> bool:
        """Return whether the draft must not be loaded at this time."""
        return self._until.get(name, -math.inf) > now

    @property
    def reasons(self) -> dict[str, str]:
        """Why each quarantined draft is quarantined."""
        return {name: self._reasons[name] for name in self._until}

    def add_for_ever(self, name: str, reason: str) -> None:
        self._until[name] = math.inf
        self._reasons[name] = reason

    def add(self, name: str, error: str, now: float) -> float:
        """Count a failure; return the seconds until the draft may be tried again."""
        self._num_failures[name] = self._num_failures.get(name, 0) + 1
        delay_s = self._backoff.delay_s(self._num_failures[name])
        self._until[name] = now + delay_s
        self._reasons[name] = error
        return delay_s

    def forgive(self, name: str) -> None:
        """Forget past failures: the draft was loaded."""
        self._num_failures.pop(name, None)

    def release(self, name: str) -> None:
        """Let a draft be tried again before its time, unless it is out for ever."""
        if self._until.get(name) != math.inf:
            self._until.pop(name, None)

    def expire(self, now: float) -> None:
        """Let go of every draft whose time has come."""
        self._until = {name: until for name, until in self._until.items() if until > now}

    def next_expiry(self) -> float | None:
        """Return when the next draft is let go, or None if none ever will be."""
        times = [until for until in self._until.values() if until < math.inf]
        return min(times, default=None)
