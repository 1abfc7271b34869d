"""What stop rules learn, against plain loops; if wrong, a method runs with other thresholds than its paper's."""

import math
import random
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.protocols.messages import IterationReport, ResidentDraft
from memspec_actors.speculation.accept import Draw
from memspec_actors.speculation.adaptation import Adaptation, adapts
from memspec_actors.speculation.criterion import confidence_bin
from memspec_actors.speculation.roc import RocThreshold
from memspec_actors.speculation.stop import stop_rule


def report_of(
    drafted: int,
    accepted: int,
    signals: tuple[float, ...] = (),
    *,
    cut: bool = False,
    draft_us: float = 1.0,
    verify_us: float = 1.0,
) -> IterationReport:
    return IterationReport(
        request_id="r", interval=0, iteration=0, epoch=1, draft=ResidentDraft("a", 1), desired=None, drafted=drafted,
        accepted=accepted, emitted=accepted + (not cut), catch_up_tokens=0, catch_up_us=0.0, draft_us=draft_us,
        verify_us=verify_us, waited_us=0.0, waited_for=None, signals=signals,
    )  # fmt: skip


@st.composite
def verified(draw: st.DrawFn) -> list[IterationReport]:
    reports = []
    for _ in range(draw(st.integers(0, 12))):
        drafted = draw(st.integers(0, 6))
        signals = tuple(draw(st.sampled_from([0.05, 0.3, 0.31, 0.6, 0.9, 0.99, 1.0])) for _ in range(drafted))
        accepted = draw(st.integers(0, drafted))
        reports.append(report_of(drafted, accepted, signals, cut=draw(st.booleans()) and accepted > 0))
    return reports


def judged(report: IterationReport) -> list[tuple[float, bool]]:
    """Pair the signal of each token that was verified with what became of it."""
    tokens = [(signal, True) for signal in report.signals[: report.accepted]]
    replaced = report.emitted == report.accepted + 1 and report.accepted < report.drafted
    return [*tokens, (report.signals[report.accepted], False)] if replaced else tokens


@settings(max_examples=200)
@given(verified())
def test_entropy_threshold_is_the_mean_entropy_of_rejected_tokens(reports: list[IterationReport]) -> None:
    learned = Adaptation("entropy", "exact")
    rejected = []
    for report in reports:
        learned.observe(report)
        rejected += [signal for signal, stands in judged(report) if not stands]
    expected = sum(rejected) / len(rejected) if rejected else 0.0
    assert learned.thresholds("r", 0).stop_threshold == pytest.approx(expected)


@settings(max_examples=200)
@given(verified())
def test_confidence_threshold_is_the_best_of_all_by_brute_force(reports: list[IterationReport]) -> None:
    """The least false positive rate + 3 false negative rate; of equals the highest; 0.4 while too little is known."""
    rule = RocThreshold()
    tokens: list[tuple[float, bool]] = []
    expected = 0.4
    for report in reports:
        rule.observe(report)
        tokens += judged(report)
        good, bad = [s for s, stands in tokens if stands], [s for s, stands in tokens if not stands]
        if len(tokens) > 5 and good and bad:
            costs = {
                at: Fraction(sum(s >= at for s in bad), len(bad)) + 3 * Fraction(sum(s < at for s in good), len(good))
                for at in {s for s, _ in tokens}
            }
            expected = max(at for at, cost in costs.items() if cost == min(costs.values()))
        assert rule.threshold == pytest.approx(expected)


def test_confidence_starts_at_0_4_and_stops_below() -> None:
    rule = stop_rule("confidence")
    assert rule.keep_drafting(1, 0.4) and not rule.keep_drafting(1, 0.39)
    rule.adapt(0.7)
    assert rule.keep_drafting(1, 0.7) and not rule.keep_drafting(1, 0.69)


@pytest.mark.parametrize("name", ["entropy", "confidence", "gain"])
def test_a_draft_that_went_wrong_spoils_nothing_for_the_others(name: str) -> None:
    """One NaN in what is learned, and all later drafts would end after a token."""
    learned = Adaptation(name, "exact")
    for _ in range(6):
        learned.observe(report_of(3, 2, (0.9, 0.8, 0.3)))
        learned.observe(report_of(1, 0, (math.nan,)))
    thresholds = learned.thresholds("r", 11)
    assert thresholds.stop_threshold is not None
    assert all(map(math.isfinite, (thresholds.stop_threshold, *thresholds.calibration)))


def test_entropy_rule_drafts_on_up_to_its_threshold() -> None:
    rule = stop_rule("entropy")
    assert rule.keep_drafting(1, 0.0) and not rule.keep_drafting(1, 1e-6)
    rule.adapt(1.25)
    assert rule.keep_drafting(1, 1.25) and not rule.keep_drafting(1, 1.26)


@pytest.mark.parametrize(("name", "most"), [("entropy", 20), ("confidence", 20), ("adaedl", 20), ("gain", 40)])
def test_no_adaptive_rule_drafts_without_bound_or_on_after_nan(name: str, most: int) -> None:
    """A draft gone NaN, or one that is never unsure, would draft without end."""
    rule = stop_rule(name)
    rule.adapt(0.0, (1.0,) * 24)
    sure = 0.0 if name == "entropy" else 1.0
    assert rule.max_tokens == most
    assert rule.keep_drafting(1, sure) and rule.keep_drafting(most - 1, sure) and not rule.keep_drafting(most, sure)
    assert not rule.keep_drafting(1, rule.signal(Draw(1, torch.full((3,), math.nan))))


@pytest.mark.parametrize(
    ("name", "signal"), [("entropy", 0.8), ("confidence", 0.7), ("adaedl", 1 - (0.2 * 0.8) ** 0.5)]
)
def test_signals_are_what_the_papers_name(name: str, signal: float) -> None:
    """Entropy in nats, the drafted token's probability, 1 - sqrt(gamma H)."""
    probs = torch.tensor([0.7, 0.2, 0.1, 0.0])
    entropy = -sum(p * math.log(p) for p in (0.7, 0.2, 0.1))
    expected = {"entropy": entropy, "confidence": 0.7, "adaedl": 1 - (0.2 * entropy) ** 0.5}[name]
    assert stop_rule(name).signal(Draw(0, probs)) == pytest.approx(expected, abs=1e-6)
    assert expected == pytest.approx(signal, abs=0.01)


def test_heuristic_grows_by_two_and_shrinks_by_one() -> None:
    learned, rule = Adaptation("heuristic", "exact"), stop_rule("heuristic")
    lengths = []
    for drafted, accepted in [(5, 5), (7, 7), (9, 3), (8, 0), (0, 0)] + [(3, 0)] * 12 + [(1, 1)] * 12:
        learned.observe(report_of(drafted, accepted))
        threshold = learned.thresholds("r", 0).stop_threshold
        assert threshold is not None
        rule.adapt(threshold)
        lengths.append(rule.max_tokens)
    assert lengths[:5] == [7, 9, 8, 7, 7]
    assert min(lengths) == 1 and max(lengths) == 20


@settings(max_examples=50)
@given(verified())
def test_adaedl_follows_its_recurrence(reports: list[IterationReport]) -> None:
    """As "Draft & Verify" has it: towards nine in ten accepted, by a smoothed step of a hundredth."""
    learned, threshold, smoothed = Adaptation("adaedl", "exact"), 0.8, 0.0
    for report in reports:
        learned.observe(report)
        if report.drafted:
            smoothed = (smoothed + report.accepted / report.drafted) / 2
            threshold = 0.9 * threshold + 0.1 * (threshold + (0.01 if smoothed < 0.9 else -0.01))
    assert learned.thresholds("r", 0).stop_threshold == pytest.approx(threshold)


def test_adaedl_does_not_lower_a_threshold_that_stopped_nothing() -> None:
    """A draft that is always right would take a threshold down that the first wrong one needs."""
    learned, thresholds = Adaptation("adaedl", "exact"), []
    for drafted in (19, 19, 19, 19, 20, 20, 19):
        learned.observe(report_of(drafted, drafted))
        thresholds.append(learned.thresholds("r", 0).stop_threshold)
    assert thresholds == pytest.approx([0.801, 0.802, 0.803, 0.802, 0.802, 0.802, 0.801])


def expected_rate(length: int, accept: float, draft_us: float, verify_us: float, slope_us: float) -> float:
    """Tokens per microsecond of drafts of a fixed length whose tokens are each accepted with a probability."""
    tokens = sum(accept**i for i in range(length + 1))
    return tokens / (length * (draft_us + slope_us) + verify_us)


@pytest.mark.parametrize(("accept", "draft_us"), [(0.6, 30.0), (0.9, 30.0), (0.9, 150.0), (0.3, 200.0), (0.9, 800.0)])
def test_gain_drafts_about_as_fast_as_the_best_fixed_length(accept: float, draft_us: float) -> None:
    """The rule that claims to weigh promise against cost would lose to a constant."""
    rng = random.Random(7)
    rule, learned = stop_rule("gain"), Adaptation("gain", "exact")
    tokens, time_us = 0, 0.0
    for iteration in range(600):
        drafted = 0
        while True:
            drafted += 1
            if not rule.keep_drafting(drafted, accept):
                break
        accepted = next((i for i in range(drafted) if rng.random() > accept), drafted)
        verify_us = 1000.0 + 20.0 * drafted + rng.gauss(0.0, 5.0)
        learned.observe(
            report_of(drafted, accepted, (accept,) * drafted, draft_us=draft_us * drafted, verify_us=verify_us)
        )
        published = learned.thresholds("r", iteration)
        assert published.stop_threshold is not None
        rule.adapt(published.stop_threshold, published.calibration)
        if iteration >= 100:
            tokens += accepted + 1
            time_us += drafted * draft_us + verify_us
    best = max(expected_rate(length, accept, draft_us, 1000.0, 20.0) for length in range(1, 21))
    assert tokens / time_us > 0.9 * best


def test_confidence_bins_grow_finer_towards_certainty() -> None:
    bins = [confidence_bin(c) for c in (0.0, 0.2, 0.5, 0.8, 0.9, 0.99, 0.999, 0.99999, 1.0)]
    assert bins == sorted(bins) and len(set(bins)) >= 7
    assert bins[0] == 0 and bins[-1] == 23


@pytest.mark.parametrize(("stop", "accept", "expected"), [
    ("fixed:5", "exact", False), ("fixed:5", "bayes", True), ("entropy", "match", True), ("gain", "exact", True),
    ("fixed:5", "fsd:0.2", False),
])  # fmt: skip
def test_pairs_that_learn_are_told_from_those_that_do_not(stop: str, accept: str, expected: bool) -> None:
    """Decoding would wait for thresholds that never come, or a rule would never learn."""
    assert adapts(stop, accept) == expected
