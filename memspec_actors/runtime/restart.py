"""How often an actor may crash, and how long to wait before it runs again."""

from collections import deque
from dataclasses import dataclass

__all__ = ["RestartHistory", "RestartPolicy"]


@dataclass(frozen=True)
class RestartPolicy:
    """Allow ``max_restarts`` within any ``within_s`` seconds, with exponential back-off.

    The n-th crash within the window waits ``backoff_s * backoff_factor ** (n - 1)`` seconds, at most ``max_backoff_s``.
    Raises ValueError for a negative value or a factor below 1.
    """

    max_restarts: int = 5
    within_s: float = 30.0
    backoff_s: float = 0.05
    backoff_factor: float = 2.0
    max_backoff_s: float = 2.0

    def __post_init__(self) -> None:
        for name in ("max_restarts", "within_s", "backoff_s", "max_backoff_s"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} is {value}; it must not be negative")
        if self.backoff_factor < 1:
            raise ValueError(f"backoff_factor is {self.backoff_factor}; it must be at least 1")


class RestartHistory:
    """Remember the crashes of one actor and decide about the next restart."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._crashes: deque[float] = deque()

    def crash(self, now_s: float) -> float | None:
        """Record a crash; return the seconds to wait before the restart, None if there were too many."""
        policy = self._policy
        self._crashes.append(now_s)
        while self._crashes[0] < now_s - policy.within_s:
            self._crashes.popleft()
        recent = len(self._crashes)
        if recent > policy.max_restarts:
            return None
        try:
            return min(policy.max_backoff_s, policy.backoff_s * policy.backoff_factor ** (recent - 1))
        except OverflowError:
            return policy.max_backoff_s
