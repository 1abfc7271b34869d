"""Each built-in stop rule stops where its formula, evaluated plainly, says."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from memspec_actors.speculation.accept import Draw
from memspec_actors.speculation.stop import StatedRule, StopRule, criterion_of, stop_rule


def stopping_length(name: str, threshold: float, calibration: Sequence[float], rows: list[list[float]]) -> int:
    """Return after how many of the likeliest tokens of distributions a draft ends, by the rule's definition."""
    survival = 1.0
    for num_drafted, row in enumerate(rows, 1):
        confidence = max(row)
        nats = float(entropy(row)) if name in ("entropy", "adaedl") else 0.0
        if name == "gain":
            edges = [1.0 - 2.0 ** (-i / 2) for i in range(1, 24)]  # of 24 bins, two for each bit that is missing from 1
            assume(all(abs(confidence - edge) > 1e-6 for edge in edges))
            survival *= calibration[sum(confidence > edge for edge in edges)] if calibration else confidence
        promise = {"entropy": -nats, "confidence": confidence, "adaedl": 1 - math.sqrt(0.2 * nats), "gain": survival}
        least = -threshold if name == "entropy" else threshold
        assume(abs(promise[name] - least) > 1e-5)
        if promise[name] < least:
            return num_drafted
    return len(rows)


@st.composite
def distributions(draw: st.DrawFn) -> list[float]:
    logits = draw(st.lists(st.floats(0.0, 12.0), min_size=3, max_size=5))
    probs: list[float] = torch.tensor(logits, dtype=torch.float64).softmax(-1).tolist()
    return probs


@settings(max_examples=150)
@given(
    name=st.sampled_from(["entropy", "confidence", "adaedl", "gain"]),
    threshold=st.floats(0.0, 1.0),
    calibration=st.just(()) | st.lists(st.floats(0.0, 1.0), min_size=24, max_size=24),
    drafts=st.lists(st.lists(distributions(), min_size=1, max_size=20), min_size=1, max_size=2),
)
def test_a_draft_ends_where_the_formula_says(
    name: str, threshold: float, calibration: Sequence[float], drafts: list[list[list[float]]]
) -> None:
    """Drafts would be too long or too short; one that follows another would go on from what that one left."""
    rule = stop_rule(name)
    rule.adapt(threshold, tuple(calibration))
    for rows in drafts:
        expected, num_drafted = stopping_length(name, threshold, calibration, rows), 0
        for row in rows:
            num_drafted += 1
            best = max(range(len(row)), key=row.__getitem__)
            if not rule.keep_drafting(num_drafted, rule.signal(Draw(best, torch.tensor(row)))):
                break
        assert num_drafted == expected


class Stubborn(StatedRule):
    """A rule of one's own on top of a built-in one."""

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        return num_drafted < 3


@pytest.mark.parametrize("spec", ["fixed:3", "heuristic", "entropy", "confidence", "adaedl", "gain"])
def test_a_rule_says_what_it_goes_by_unless_it_was_changed(spec: str) -> None:
    """Else a changed rule would be passed over, and drafts follow the one that it was made from."""
    rule: StopRule = stop_rule(spec)
    criterion = criterion_of(rule)
    assert criterion is not None and criterion.max_tokens == rule.max_tokens
    assert criterion_of(Stubborn(criterion)) is None
