"""Counters obey their laws whatever is added (behaviour of every figure that results and metrics show)."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.protocols.events import ShareKind
from memspec_actors.protocols.messages import IterationReport, ResidentDraft, WaitedFor
from memspec_actors.protocols.results import DraftFigures, Share
from memspec_actors.speculation.statistics import SpeculationCounters, share_kind


@dataclass(frozen=True)
class Added:
    draft: str | None
    share: ShareKind
    drafted: int
    accepted: int
    emitted: int
    work_us: float
    catch_up_us: float
    waited_us: float
    waited_for: WaitedFor | None


@st.composite
def additions(draw: st.DrawFn) -> Added:
    draft = draw(st.sampled_from(["code", "law", None]))
    drafted = 0 if draft is None else draw(st.integers(0, 8))
    accepted = draw(st.integers(0, drafted))
    emitted = accepted + draw(st.integers(0 if accepted else 1, 1))
    kind: ShareKind = "target_only" if draft is None else draw(st.sampled_from(["desired", "fallback"]))
    times = st.floats(0.0, 1e6)
    waited_for: WaitedFor | None = draw(st.sampled_from([None, "prediction", "load", "thresholds"]))
    waited_us = 0.0 if waited_for is None else draw(times)
    return Added(draft, kind, drafted, accepted, emitted, draw(times), draw(times), waited_us, waited_for)


@given(st.lists(additions(), max_size=30), st.integers(0, 6))
def test_counters_obey_their_laws(added: list[Added], asked: int) -> None:
    """Acceptance figures would contradict each other or the text."""
    counters = SpeculationCounters(asked)
    for one in added:
        counters.add(**vars(one))
    metrics = counters.metrics()
    steps = [one for one in added if one.drafted]
    longest = max([asked, *(one.drafted for one in steps)])
    num_drafted, num_accepted = sum(one.drafted for one in steps), sum(one.accepted for one in steps)
    assert metrics.num_accepted_draft_tokens == num_accepted <= metrics.num_draft_tokens == num_drafted
    assert metrics.num_spec_steps == len(steps)
    assert metrics.num_spec_tokens == longest
    assert metrics.acceptance_histogram == tuple(sum(one.accepted > i for one in steps) for i in range(longest))
    assert sum(metrics.acceptance_histogram) == num_accepted
    if steps:
        assert metrics.mean_acceptance_length == pytest.approx(1 + num_accepted / len(steps))
        assert metrics.draft_acceptance_rate == pytest.approx(num_accepted / num_drafted)
    for name, figures in counters.drafts().items():
        mine = [one for one in added if one.draft == name]
        assert figures == DraftFigures(
            iterations=len(mine),
            drafted=sum(one.drafted for one in mine),
            accepted=sum(one.accepted for one in mine),
            tokens=sum(one.emitted for one in mine),
        )
    assert set(counters.drafts()) == {one.draft for one in added} - {None}


@given(st.lists(additions(), max_size=30))
def test_shares_are_the_fractions_of_all_time(added: list[Added]) -> None:
    """The split of decode time would not add up to the decode time."""
    counters = SpeculationCounters()
    for one in added:
        counters.add(**vars(one))
    share = counters.share()
    total = sum(one.work_us + one.catch_up_us + one.waited_us for one in added)
    if total == 0.0:
        assert share == Share()
        return
    for kind in ("desired", "fallback", "target_only"):
        wanted = sum(one.work_us for one in added if one.share == kind)
        assert getattr(share, kind) == pytest.approx(wanted / total)
    assert share.catch_up == pytest.approx(sum(one.catch_up_us for one in added) / total)
    for_rankings = sum(one.waited_us for one in added if one.waited_for == "prediction")
    assert share.prediction == pytest.approx(for_rankings / total)
    assert share.waited == pytest.approx((sum(one.waited_us for one in added) - for_rankings) / total)


def test_nothing_added_gives_zeros() -> None:
    """Statistics of an idle engine would divide by zero."""
    counters = SpeculationCounters(3)
    assert counters.metrics().mean_acceptance_length == counters.metrics().draft_acceptance_rate == 0.0
    assert counters.metrics().acceptance_histogram == (0, 0, 0)
    assert counters.share() == Share()
    assert counters.drafts() == {}


@pytest.mark.parametrize(("drafted", "accepted", "emitted"), [(2, 3, 4), (2, -1, 0), (3, 2, 4), (3, 2, 1)], ids=str)
def test_figures_that_contradict_each_other_are_our_own_bug(drafted: int, accepted: int, emitted: int) -> None:
    """A miscounted iteration would spoil every figure after it without a word."""
    with pytest.raises(AssertionError):
        SpeculationCounters().add(
            draft="code", share="desired", drafted=drafted, accepted=accepted, emitted=emitted, work_us=1.0
        )


@pytest.mark.parametrize("waited_for", ["prediction", "load"])
@pytest.mark.parametrize(
    ("draft", "desired", "kind"),
    [
        (None, None, "target_only"),
        (None, "law", "target_only"),
        ("law", "law", "desired"),
        ("law", None, "desired"),
        ("code", "law", "fallback"),
    ],
)
def test_a_report_is_counted_under_the_share_of_its_draft(
    draft: str | None, desired: str | None, kind: ShareKind, waited_for: WaitedFor
) -> None:
    """Time would be booked as desired while a fallback ran."""
    assert share_kind(draft, desired) == kind
    counters = SpeculationCounters()
    counters.add_report(
        IterationReport(
            request_id="r",
            interval=0,
            iteration=0,
            epoch=1,
            draft=None if draft is None else ResidentDraft(draft, 1),
            desired=desired,
            drafted=0 if draft is None else 5,
            accepted=0 if draft is None else 2,
            emitted=1 if draft is None else 3,
            catch_up_tokens=4,
            catch_up_us=20.0,
            draft_us=30.0,
            verify_us=45.0,
            waited_us=5.0,
            waited_for=waited_for,
        )
    )
    assert getattr(counters.share(), kind) == pytest.approx(0.75)
    assert counters.share().catch_up == pytest.approx(0.2)
    assert counters.share().prediction == pytest.approx(0.05 if waited_for == "prediction" else 0.0)
    assert counters.share().waited == pytest.approx(0.05 if waited_for == "load" else 0.0)
    assert sum(figures.tokens for figures in counters.drafts().values()) == (0 if draft is None else 3)
