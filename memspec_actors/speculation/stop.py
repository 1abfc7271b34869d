"""Decide, while drafting, whether one more token is worth its time."""

from typing import TYPE_CHECKING, Protocol

from memspec_actors.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor  # names of stop rules are checked where torch is not loaded yet

__all__ = ["FixedLength", "StopRule", "stop_rule"]

MAX_DIGITS = 9  # no draft is longer


class StopRule(Protocol):
    """Say after each drafted token whether to draft another; a rule may hold state of its request."""

    @property
    def max_tokens(self) -> int:
        """Bound the tokens of one draft; 0 drafts nothing."""
        ...

    def keep_drafting(self, num_drafted: int, token_id: int, logits: "Tensor") -> bool:
        """Tell whether to draft on, after ``num_drafted`` tokens of which ``token_id`` is the last.

        ``logits`` (V,) is the draft's raw output that the last token was drawn from. That token is kept either way.
        """
        ...


class FixedLength:
    """Always draft k tokens."""

    def __init__(self, k: int) -> None:
        self.max_tokens = k

    def keep_drafting(self, num_drafted: int, token_id: int, logits: "Tensor") -> bool:
        return num_drafted < self.max_tokens


def stop_rule(spec: str) -> StopRule:
    """Return a new stop rule for one request from its name, as in ``fixed:5``.

    Raises ConfigError for anything else than ``fixed:K`` with a whole number K >= 0.
    """
    kind, _, argument = spec.partition(":")
    if kind != "fixed" or not (argument.isascii() and argument.isdigit() and len(argument) <= MAX_DIGITS):
        raise ConfigError(f"stop is {spec!r}; known rules: fixed:K with a whole number K >= 0, as in 'fixed:5'")
    return FixedLength(int(argument))
