"""Two runs side by side."""

import pytest
from msgspec.structs import replace

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.telemetry.compare import compare
from memspec_actors.telemetry.summary import summarize
from tests.telemetry.conftest import RealRun


def test_slower_verification_is_found_where_it_is(run: RealRun) -> None:
    """A run that got slower must say by what."""

    def slower(event: Event) -> Event:
        if not isinstance(event, events.Iteration):
            return event
        return replace(event, verify_us=2 * event.verify_us, wall_us=event.wall_us + event.verify_us)

    found = compare(summarize(run.records), summarize([slower(event) for event in run.records]))
    spent = {change.name: change for change in found.ms_per_token}
    assert spent["verify"].ratio == pytest.approx(2.0)
    assert [name for name, change in spent.items() if change.ratio and abs(change.ratio - 1) > 1e-6] == [
        "verify",
        "total",
    ]
    assert spent["total"].b - spent["total"].a == pytest.approx(spent["verify"].a)
    iterations = [event for event in run.records if isinstance(event, events.Iteration)]
    tokens = sum(result.usage.completion_tokens for result in run.results)
    assert spent["verify"].a == pytest.approx(sum(event.verify_us for event in iterations) / 1e3 / tokens)


def test_run_compared_with_itself_has_not_changed(run: RealRun) -> None:
    summary = summarize(run.path)
    found = compare(summary, summary)
    assert {change.ratio for change in (*found.figures, *found.ms_per_token)} <= {1.0, None}
    assert all(change.a == 0 for change in found.figures if change.ratio is None)
