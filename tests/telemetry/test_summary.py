"""The summary: what it recomputes from records is what the run itself measured."""

import itertools
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from memspec_actors.errors import UsageError
from memspec_actors.protocols import events
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.telemetry import read
from memspec_actors.telemetry.summary import RequestSummary, Spread, summarize
from tests.telemetry.conftest import POLICIES, RealRun, TimedRun


def by_id(rows: tuple[RequestSummary, ...], result: GenerationResult) -> RequestSummary:
    return next(row for row in rows if row.request_id == result.request_id)


def test_every_figure_of_every_result_is_recomputed(run: RealRun) -> None:
    """If log and result told two stories, neither could be trusted."""
    summary = summarize(run.path)
    assert len(summary.by_request) == summary.requests == len(run.results)
    for result in run.results:
        row, scheduling = by_id(summary.by_request, result), result.scheduling
        assert row.speculative_decoding == result.metrics.speculative_decoding
        assert row.drafts == scheduling.drafts
        assert msgspec.structs.astuple(row.share) == pytest.approx(msgspec.structs.astuple(scheduling.share))
        counts = (row.switches, row.loads, row.evictions, row.predictions)
        assert counts == (scheduling.switches, scheduling.loads, scheduling.evictions, scheduling.predictions)
        assert row.prediction_busy_share == pytest.approx(scheduling.prediction_busy_share)
        assert (row.tokens, row.prompt_tokens) == (result.usage.completion_tokens, result.usage.prompt_tokens)
        assert row.policy == scheduling.policy
        assert row.finish_reason == result.finish_reason


def test_times_are_recomputed_where_the_end_is_missing(timed_runs: list[TimedRun]) -> None:
    """A killed run leaves no finish record; its iterations must give the same figures."""
    for timed in timed_runs:
        (row,) = summarize([e for e in timed.records if not isinstance(e, events.RequestFinished)]).by_request
        timing = timed.result.timing
        assert row.finish_reason is None
        assert row.tokens == timed.result.usage.completion_tokens
        assert row.decode_s == pytest.approx(timing.decode_s)
        assert row.tokens_per_second == pytest.approx(timing.tokens_per_second)
        assert row.time_to_first_token_s == pytest.approx(timing.time_to_first_token_s)


def test_totals_are_those_of_the_requests(run: RealRun) -> None:
    summary = summarize(run.path)
    results = run.results
    assert summary.tokens == sum(result.usage.completion_tokens for result in results)
    assert summary.finish_reasons == Counter(result.finish_reason for result in results)
    decode_s = sum(result.timing.decode_s for result in results)
    decoded = sum(result.usage.completion_tokens - 1 for result in results)
    assert summary.tokens_per_second == pytest.approx(decoded / decode_s)
    histograms = [result.metrics.speculative_decoding.acceptance_histogram for result in results]
    assert summary.speculative_decoding.acceptance_histogram == tuple(
        map(sum, itertools.zip_longest(*histograms, fillvalue=0))
    )
    assert sum(msgspec.structs.astuple(summary.share)) == pytest.approx(1)
    assert set(summary.policies) == set(POLICIES)
    tokens = Counter[str]()
    for result in results:
        tokens.update({name: figures.tokens for name, figures in result.scheduling.drafts.items()})
    assert {name: draft.tokens for name, draft in summary.drafts.items() if draft.tokens} == tokens


def test_cache_counts_are_those_of_the_state_machine(run: RealRun) -> None:
    """Nothing else tells whether prefetching pays."""
    summary = summarize(run.path)
    assert summary.loads == run.counts.loads
    assert summary.evictions == run.counts.evictions == sum(summary.eviction_reasons.values())
    assert (summary.prefetch.useful, summary.prefetch.wasted) == (run.counts.useful, run.counts.wasted)
    assert summary.prefetch.wasted > 0
    assert any("room is needed for" in reason for reason in summary.eviction_reasons)
    assert summary.load_ms.count == summary.loads


def test_waiting_for_a_ranking_is_told_from_other_waiting(run: RealRun) -> None:
    """The one is the price of inline prediction, the other that of loads that nobody saw coming."""
    for waited_for, kind in (("prediction", "prediction"), ("load", "waited"), ("thresholds", "waited")):
        records = [
            msgspec.structs.replace(each, waited_us=1500.0, waited_for=waited_for)
            if isinstance(each, events.Iteration)
            else each
            for each in read(run.path)
        ]
        share = msgspec.structs.asdict(summarize(records).share)
        assert {name for name in ("prediction", "waited") if share[name]} == {kind}


def test_queue_depth_counts_those_that_came_before(run: RealRun) -> None:
    """Three requests at once: the second waits for one, the third for two."""
    rows = summarize(run.path).by_request[-3:]
    assert sorted(row.queue_depth for row in rows) == [0, 1, 2]
    assert summarize(run.path).queue_depth.max == 2


@pytest.mark.parametrize(
    "counts",
    [
        {"drafted": -1},
        {"accepted": 10**15},
        {"accepted": -1},
        {"emitted": 10**15},
        {"emitted": -1},
        {"departures": 10**15},
        {"departures": -1},
        {"draft": None, "drafted": 1},
    ],
)
def test_an_iteration_that_cannot_have_been_is_named(run: RealRun, counts: dict[str, int | None]) -> None:
    """A damaged log would end in an assertion, or in figures that make no sense."""
    log = list(read(run.path))
    place = next(i for i, event in enumerate(log) if isinstance(event, events.Iteration))
    log[place] = msgspec.structs.replace(log[place], **counts)
    with pytest.raises(UsageError, match=rf"seq {log[place].seq}\) cannot have been"):
        summarize(log)


def test_mailbox_peaks_are_the_largest_of_all_runs() -> None:
    """Whether an actor ever fell behind would depend on which run was read last."""
    peaks: list[dict[str, int]] = [{"loader": 2, "decoder": 3}, {"loader": 5, "decoder": 1}]
    stops = [events.SystemStopped(actor="engine", reason="closed", records=1, mailbox_peaks=each) for each in peaks]
    assert summarize(stops).mailbox_peaks == {"loader": 5, "decoder": 3}


def test_every_actor_of_a_real_run_has_a_peak(run: RealRun) -> None:
    actors = {"decoder", "predictor", "cache_manager", "loader", "verifier_stats"}
    assert {actor for actor, peak in summarize(run.path).mailbox_peaks.items() if peak} == actors


def test_crash_and_restart_are_counted(run: RealRun) -> None:
    summary = summarize(run.path)
    assert summary.crashes == summary.restarts == {"predictor": 1}


def test_domains_are_the_preferred_drafts(run: RealRun) -> None:
    iterations = [event for event in run.records if isinstance(event, events.Iteration)]
    domains = summarize(run.path).domains
    expected = Counter(event.desired for event in iterations if event.desired is not None)
    assert {name: domain.iterations for name, domain in domains.items()} == expected
    for name, domain in domains.items():
        assert domain.tokens == sum(event.emitted for event in iterations if event.desired == name)


def test_log_without_iterations_has_the_figures_of_its_results(run: RealRun) -> None:
    """Level "info" leaves iterations out; the results are in the log all the same."""
    left_out = (events.Iteration, events.IntervalFinished)
    full, brief = summarize(run.path), summarize([event for event in run.records if not isinstance(event, left_out)])
    assert brief.speculative_decoding == full.speculative_decoding
    assert brief.switches == full.switches
    assert brief.tokens_per_second == pytest.approx(full.tokens_per_second)
    assert {name: draft.accepted for name, draft in brief.drafts.items()} == {
        name: draft.accepted for name, draft in full.drafts.items()
    }
    result = run.results[0]
    assert by_id(brief.by_request, result).share == result.scheduling.share


def test_several_logs_are_summed_up_as_one(run: RealRun, tmp_path: Path) -> None:
    """The second log begins with nothing in memory, whatever the first one left there."""
    half = len(run.records) // 2
    lines = run.path.read_bytes().splitlines(keepends=True)
    (tmp_path / "killed").write_bytes(b"".join(lines[:half]) + b'{"event":"iterat')
    both, alone = summarize(tmp_path / "killed", run.path), summarize(run.path)
    assert (both.runs, both.records, both.skipped) == (2, half + len(lines), 1)
    assert both.by_request[-1] == alone.by_request[-1]
    assert both.requests > alone.requests


def test_spread_of_few_values() -> None:
    assert Spread.of([]) == Spread(count=0)
    assert Spread.of([2.0]) == Spread(count=1, mean=2.0, median=2.0, p95=2.0, max=2.0)
    spread = Spread.of([float(value) for value in range(101)])
    assert (spread.mean, spread.median, spread.p95, spread.max) == (50.0, 50.0, 95.0, 100.0)
