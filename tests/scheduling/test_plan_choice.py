"""Which plan a request follows; oracles without one are refused."""

from pathlib import Path

import pytest

from memspec_actors.errors import ConfigError, InvalidRequest, TraceError
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader, PlanStep
from memspec_actors.scheduling.plan_choice import PlanFile
from memspec_actors.scheduling.plans import write_plans
from memspec_actors.scheduling.policy import parse_policy

NAMES = ("general", "code")
DYNAMIC = parse_policy("oracle-dynamic", NAMES)
PLAN = Plan(prompt_ids=(1, 2), steps=(PlanStep(0, ("code",)),))


@pytest.fixture
def path(tmp_path: Path) -> str:
    header = PlanHeader(
        format=PLAN_FORMAT,
        policy="oracle-dynamic",
        target="t",
        drafts=dict.fromkeys(NAMES, "d"),
        interval=4,
        capacity=2,
        k=5,
    )
    write_plans(tmp_path / "plans", header, [PLAN])
    return str(tmp_path / "plans")


def test_a_prompt_gets_its_own_plan(path: str) -> None:
    """An oracle would follow the plan of another text."""
    plans = PlanFile(path, NAMES)
    assert plans.plan_for(DYNAMIC, (1, 2)) == PLAN
    with pytest.raises(InvalidRequest, match=r"plans: holds no plan for this prompt of 3 tokens; .*predictor collect"):
        plans.plan_for(DYNAMIC, (1, 2, 3))


def test_other_policies_need_none(path: str) -> None:
    """A plan file in the configuration would keep every other policy from running."""
    for plans in (PlanFile(path, NAMES), PlanFile(None, NAMES)):
        assert plans.plan_for(parse_policy("general-static", NAMES), (7,)) is None


@pytest.mark.parametrize("policy", ["oracle-static", "domain-oracle", "oracle-dynamic"])
def test_an_oracle_without_plans_is_refused(policy: str) -> None:
    """It would run as something else, or bring the Predictor down."""
    with pytest.raises(ConfigError, match=rf"'{policy}' needs a plan file: .*--plan"):
        PlanFile(None, NAMES).check(parse_policy(policy, NAMES))


def test_plans_of_another_oracle_or_for_other_drafts_are_refused(path: str) -> None:
    """Figures would be printed under the wrong name, or a draft ranked that is not there."""
    with pytest.raises(ConfigError, match="holds plans of 'oracle-dynamic'; policy 'oracle-static'"):
        PlanFile(path, NAMES).check(parse_policy("oracle-static", NAMES))
    with pytest.raises(ConfigError, match="plans with a draft 'code'"):
        PlanFile(path, ("general",))
    with pytest.raises(TraceError, match="nowhere"):
        PlanFile("nowhere", NAMES)
