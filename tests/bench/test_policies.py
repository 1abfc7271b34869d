"""If these fail, policies are compared on other work than they seem to be."""

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors.bench.datasets import zoo_datasets
from memspec_actors.bench.policies import identical_share, plan_length, run_policies
from memspec_actors.comparison import STRICT, Outcome
from memspec_actors.config import Config, EventsConfig, SpeculationConfig
from memspec_actors.telemetry.audit import audit
from tests.results import NOTHING


def test_one_differing_text_is_noticed() -> None:
    """The policies would be compared on different work."""
    same, other = replace(NOTHING, token_ids=(1, 2)), replace(NOTHING, token_ids=(1, 3))
    outcomes = [Outcome(0, "law", policy, same) for policy in ("a", "a", "b")]
    assert identical_share([*outcomes, Outcome(0, "law", "b", same)]) == 1.0
    assert identical_share([*outcomes, Outcome(0, "law", "b", other)]) == 0.5


@pytest.mark.parametrize(
    ("speculation", "length"),
    [
        (SpeculationConfig(stop="fixed:3"), 3),
        (SpeculationConfig(stop="fixed:0"), 1),
        (SpeculationConfig(stop="fixed:999999999"), 1000),
        (SpeculationConfig(method="vanilla"), 5),
        (SpeculationConfig(), 5),
        (SpeculationConfig(stop="heuristic"), 5),
    ],
)
def test_oracles_plan_for_the_configured_length_or_for_five(speculation: SpeculationConfig, length: int) -> None:
    """Their plans would be for drafts of another length than those that run."""
    assert plan_length(Config(speculation=speculation)) == length


def test_an_interrupt_ends_the_making_of_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside an event loop, or in a thread, Ctrl-C would be heard only when they are made: minutes later."""

    def plan(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the work goes on")

    monkeypatch.setattr("memspec_actors.bench.policies._write_plans", plan)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background interrupts are ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            run_policies(Config(), [], ["memspec"], runs=1, max_new_tokens=1, progress=lambda what, done, total: None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_configured_event_log_is_that_of_the_policies_alone(tmp_path: Path) -> None:
    """The strict baseline has an engine of its own: in one log with the other's its records look like breaches."""
    config = Config(events=EventsConfig(path=str(tmp_path / "log")))
    datasets = [dataset._replace(tasks=dataset.tasks[:1]) for dataset in zoo_datasets(1)[:1]]
    outcomes = run_policies(
        config, datasets, ["target-only"], runs=1, max_new_tokens=8, progress=lambda what, done, total: None
    )
    assert {outcome.policy for outcome in outcomes} >= {"target-only", STRICT}
    found = audit(tmp_path / "log")
    assert (found.runs, found.violations) == (1, ())
