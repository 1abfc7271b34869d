"""What decoding stands still for: policies and rules that wait do so by definition, nothing else ever does."""

from typing import Literal, NamedTuple

from memspec_actors.protocols.messages import WaitedFor
from memspec_actors.scheduling.policy import Policy

__all__ = ["DEADLINE_S", "Wait", "waits_for"]

#: What is waited for in an interval at most; then decoding goes on with what it has.
DEADLINE_S: dict[WaitedFor, float] = {"prediction": 1.0, "load": 60.0, "thresholds": 1.0}


class Wait(NamedTuple):
    """Decoding stood still."""

    reason: WaitedFor
    us: float


def waits_for(
    policy: Policy, *, prediction: Literal["overlapped", "inline"], learns_in_step: bool
) -> tuple[WaitedFor, ...]:
    """Return what an iteration waits for, in this order, where it is missing.

    With ``learns_in_step`` the rules need what the iteration before has taught.
    """
    thresholds: tuple[WaitedFor, ...] = ("thresholds",) if learns_in_step else ()
    if policy.waits_for_load:
        return *thresholds, "prediction", "load"
    if policy.uses_drafts and prediction == "inline":
        return *thresholds, "prediction"
    return thresholds
