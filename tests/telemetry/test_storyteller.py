"""The story of a log: spans that fit together, and do not outlive their run."""

import itertools

import pytest

from memspec_actors.protocols import events
from memspec_actors.telemetry.storyteller import tell_story
from tests.telemetry.conftest import RealRun, TimedRun


def test_every_iteration_ran_a_draft_that_was_there(run: RealRun) -> None:
    """A picture in which a draft decodes outside its resident span would tell of a bug that is not there."""
    story = tell_story(run.records)
    assert len(story.iterations) == sum(isinstance(event, events.Iteration) for event in run.records)
    for ran in story.iterations:
        spans = [span for span in story.drafts if span.draft == ran.draft and span.state in ("resident", "revoked")]
        assert ran.draft is None or any(span.start <= ran.start <= span.end for span in spans), ran


def test_states_of_a_load_follow_one_another(run: RealRun) -> None:
    story = tell_story(run.records)
    starts = [event.draft for event in run.records if isinstance(event, events.DraftLoadStarted)]
    assert sum(span.state == "loading" for span in story.drafts) == len(starts)
    for draft in starts:
        spans = [span for span in story.drafts if (span.draft, span.generation) == (draft.name, draft.generation)]
        assert spans[0].state == "loading"
        assert all(before.end == after.start for before, after in itertools.pairwise(spans))
        assert all(span.end >= span.start for span in spans)


def test_requests_are_those_of_their_results(run: RealRun) -> None:
    story = tell_story(run.records)
    for served, result in zip(story.requests, run.results, strict=True):
        assert (served.id, served.tokens, served.reason) == (
            result.request_id,
            result.usage.completion_tokens,
            result.finish_reason,
        )


def test_requests_last_as_long_as_their_results_say(timed_runs: list[TimedRun]) -> None:
    for timed in timed_runs:
        (served,) = tell_story(timed.records).requests
        assert served.end - served.start == pytest.approx(timed.result.timing.total_s)


def test_killed_run_ends_where_its_log_does(run: RealRun) -> None:
    """The next run in the same file must not draw on what the killed one had in memory."""
    half = run.records[: len(run.records) // 2]
    story = tell_story([*half, *run.records])
    alone = tell_story(half)
    assert story.requests[: len(alone.requests)] == alone.requests
    assert all(span.end <= alone.end for span in story.drafts[: len(alone.drafts)])
    assert any(served.reason == "open" for served in alone.requests)
