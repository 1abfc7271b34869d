"""If these fail, decoding stands still where it never should, or a baseline of the paper does not where it should."""

from typing import Literal

import pytest

from memspec_actors.protocols.messages import WaitedFor
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.waits import DEADLINE_S, waits_for

OVERLAPPED = (
    "memspec",
    "memspec+",
    "prediction-only",
    "mab-async",
    "mab-exp3",
    "hedge",
    "static:law",
    "oracle-dynamic",
)


@pytest.mark.parametrize("name", OVERLAPPED)
def test_overlapped_policies_wait_for_nothing(name: str) -> None:
    policy = parse_policy(name, ("law",))
    assert waits_for(policy, prediction="overlapped", learns_in_step=False) == ()
    assert waits_for(policy, prediction="inline", learns_in_step=False) == ("prediction",)


@pytest.mark.parametrize("prediction", ["overlapped", "inline"])
def test_a_policy_that_waits_for_loads_needs_the_ranking_that_names_them_first(
    prediction: Literal["overlapped", "inline"],
) -> None:
    policy = parse_policy("mab-sync", ("law",))
    assert waits_for(policy, prediction=prediction, learns_in_step=False) == ("prediction", "load")
    assert waits_for(policy, prediction=prediction, learns_in_step=True) == ("thresholds", "prediction", "load")


def test_the_target_alone_waits_for_no_ranking() -> None:
    """There comes none: every interval would begin with a second of standing still."""
    assert waits_for(parse_policy("target-only", ()), prediction="inline", learns_in_step=False) == ()


def test_every_wait_has_a_deadline() -> None:
    """Invariant 7: an actor that died would take generation with it."""
    kinds: tuple[WaitedFor, ...] = ("prediction", "load", "thresholds")
    assert all(0 < DEADLINE_S[kind] <= 60 for kind in kinds)
