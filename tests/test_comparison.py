"""If these fail, the comparison of policies says something else than was measured."""

import math

import pytest
from msgspec.structs import replace

from memspec_actors.comparison import STRICT, Outcome, compare_policies
from memspec_actors.errors import UsageError
from memspec_actors.protocols.results import DraftFigures, GenerationResult, Share
from tests.results import NOTHING


def _result(
    tokens: int,
    decode_s: float,
    *,
    total_s: float = 1.0,
    share: Share | None = None,
    startup: tuple[int, float] = (0, 0.0),
) -> GenerationResult:
    """A generation of so many tokens; half of those after the first came from one iteration of a draft."""
    drafted = (tokens - 1) // 2
    return replace(
        NOTHING,
        token_ids=tuple(range(tokens)),
        timing=replace(NOTHING.timing, decode_s=decode_s, total_s=total_s),
        scheduling=replace(
            NOTHING.scheduling,
            switches=2,
            loads=3,
            wasted_loads=1,
            share=share or Share(desired=1.0),
            startup_tokens=startup[0],
            startup_s=startup[1],
            drafts={"general": DraftFigures(iterations=1, drafted=5, accepted=4, tokens=drafted)},
        ),
    )


def test_throughput_is_normalised_within_a_data_set_and_averaged_geometrically() -> None:
    speeds = {
        ("law", "general-static"): 10.0,
        ("law", "memspec"): 20.0,
        (
            "code",
            "general-static",
        ): 30.0,
        ("code", "memspec"): 45.0,
        ("law", STRICT): 16.0,
        ("code", STRICT): 50.0,
    }
    outcomes = [Outcome(0, data, policy, _result(101, 100 / speed)) for (data, policy), speed in speeds.items()]
    comparison = compare_policies(outcomes)
    assert comparison.geomean == pytest.approx(
        {"general-static": 1.0, "memspec": math.sqrt(2.0 * 1.5), STRICT: math.sqrt(1.6 * 5 / 3)}
    )
    assert comparison.geomean_strict is not None
    assert comparison.geomean_strict["memspec"] == pytest.approx(math.sqrt(20 / 16 * 45 / 50))
    by_cell = {(row.dataset, row.policy): row for row in comparison.rows}
    assert by_cell["law", "memspec"].tokens_per_second == pytest.approx(20.0)
    assert by_cell["code", "memspec"].normalized == pytest.approx(1.5)


def test_prompts_of_a_run_are_summed_and_runs_averaged_geometrically() -> None:
    outcomes = [
        Outcome(run, "law", "general-static", _result(tokens, seconds))
        for run, tokens, seconds in ((0, 11, 1.0), (0, 31, 3.0), (1, 11, 2.0), (1, 31, 18.0))
    ]
    (row,) = compare_policies(outcomes).rows
    assert row.tokens_per_second == pytest.approx(math.sqrt(40 / 4 * 40 / 20))
    assert compare_policies(outcomes).geomean_strict is None


def test_shares_weigh_by_time_and_iterations_count_the_targets_own() -> None:
    results = [_result(21, 1.0, share=Share(desired=1.0)), _result(21, 3.0, share=Share(fallback=1.0), total_s=4.0)]
    (row,) = compare_policies([Outcome(0, "law", "general-static", result) for result in results]).rows
    assert (row.share.desired, row.share.fallback) == pytest.approx((0.25, 0.75))
    assert row.latency_s == 2.5
    assert (row.switches, row.loads, row.wasted_loads) == (2, 3, 1)
    assert row.tokens_per_iteration == pytest.approx(40 / (2 + 20))


def test_the_first_load_is_left_out_of_steady_throughput() -> None:
    """A long first load would count against every policy alike, and bring their ratios nearer to one."""
    outcomes = [
        Outcome(0, "law", "general-static", _result(41, 10.0, startup=(4, 1.0))),
        Outcome(0, "law", "memspec", _result(41, 5.0, startup=(4, 1.0))),
    ]
    comparison = compare_policies(outcomes)
    assert comparison.geomean["memspec"] == pytest.approx((40 / 5) / (40 / 10))
    assert comparison.steady["memspec"] == pytest.approx((36 / 4) / (36 / 9))
    row = next(row for row in comparison.rows if row.policy == "memspec")
    assert row.steady_tokens_per_second == pytest.approx(9.0)
    assert row.startup_share == pytest.approx(0.2)
    assert row.tokens_per_iteration == pytest.approx(36 / (1 + 36 - 20)), "20 tokens came from one drafted iteration"


def test_texts_of_one_token_have_no_throughput() -> None:
    """A division by zero would be all that somebody learns whose prompts are answered in a word."""
    outcomes = [
        Outcome(0, dataset, "general-static", _result(tokens, float(tokens - 1)))
        for dataset, tokens in (("law", 9), ("law", 1), ("code", 1), ("code", 1))
    ]
    assert compare_policies(outcomes[:2]).rows[0].tokens_per_second == 1.0
    with pytest.raises(UsageError, match=r"data set 'code' has no throughput: .* larger --max-new-tokens"):
        compare_policies(outcomes)


def test_latency_is_that_of_whole_requests_over_both_general_drafts() -> None:
    times = {"general-static": 2.0, "memspec": 1.0, STRICT: 1.6}
    outcomes = [Outcome(0, "law", policy, _result(5, 1.0, total_s=total_s)) for policy, total_s in times.items()]
    comparison = compare_policies(outcomes)
    assert comparison.latency["memspec"] == pytest.approx(0.5)
    assert comparison.latency_strict is not None
    assert comparison.latency_strict["memspec"] == pytest.approx(1.0 / 1.6)
