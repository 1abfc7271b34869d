"""If these fail, an oracle's plan is carried out for another text, or a damaged one as if it were whole."""

from pathlib import Path

import msgspec
import pytest

from memspec_actors.errors import TraceError
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader, PlanStep
from memspec_actors.scheduling.plans import read_plans, write_plans

HEADER = PlanHeader(
    format=PLAN_FORMAT,
    policy="oracle-dynamic",
    target="t",
    drafts={"a": "1", "b": "2"},
    interval=4,
    capacity=2,
    k=5,
)
PLANS = (
    Plan(prompt_ids=(1, 2), steps=(PlanStep(0, ("a", "b")), PlanStep(17, ("b",)))),
    Plan(prompt_ids=(3,), steps=(PlanStep(0, ()),)),
)


def test_plans_come_back_by_prompt(tmp_path: Path) -> None:
    write_plans(tmp_path / "p", HEADER, PLANS)
    (plans,) = read_plans(tmp_path / "p").values()
    assert plans.header == HEADER
    assert plans.by_prompt == {(1, 2): PLANS[0], (3,): PLANS[1]}


def test_a_file_may_hold_the_plans_of_several_oracles(tmp_path: Path) -> None:
    """One would be carried out under the name of another."""
    other = msgspec.structs.replace(HEADER, policy="domain-oracle")
    write_plans(tmp_path / "a", HEADER, PLANS)
    write_plans(tmp_path / "b", other, PLANS[:1])
    (tmp_path / "both").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    plans = read_plans(tmp_path / "both")
    assert {policy: each.header for policy, each in plans.items()} == {"oracle-dynamic": HEADER, "domain-oracle": other}
    assert [len(each.by_prompt) for each in plans.values()] == [2, 1]


def test_plans_of_one_oracle_in_two_parts_are_all_kept_if_they_were_made_alike(tmp_path: Path) -> None:
    """The first part would be forgotten, or carried out with another N."""
    write_plans(tmp_path / "a", HEADER, PLANS[:1])
    first = (tmp_path / "a").read_bytes()
    for header in (HEADER, msgspec.structs.replace(HEADER, interval=2)):
        write_plans(tmp_path / "b", header, PLANS[1:])
        (tmp_path / "both").write_bytes(first + (tmp_path / "b").read_bytes())
        if header == HEADER:
            assert len(read_plans(tmp_path / "both")["oracle-dynamic"].by_prompt) == 2
        else:
            with pytest.raises(TraceError, match="both, line 3: plans of 'oracle-dynamic' made in another setting"):
                read_plans(tmp_path / "both")


@pytest.mark.parametrize(
    ("line", "old", "new", "said"),
    [
        (1, "memspec-plan-1", "memspec-trace-3", "format"),
        (1, '"k":5', '"kk":5', "kk"),
        (2, "[0,", "[1,", "begin at 0"),
        (2, "[17,", "[0,", "grow"),
        (2, '["a","b"]', '["a","z"]', "must name drafts"),
        (2, '["a","b"]', '["a","a"]', "once"),
        (3, "}", "", "truncated|Expected"),
        (3, "[3]", '["x"]', "int"),
    ],
)
def test_damage_is_reported_with_file_and_line(tmp_path: Path, line: int, old: str, new: str, said: str) -> None:
    path = tmp_path / "p"
    write_plans(path, HEADER, PLANS)
    lines = path.read_text().splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("".join(lines))
    with pytest.raises(TraceError, match=f"p, line {line}.*({said})"):
        read_plans(path)


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("", "empty")])
def test_a_file_without_plans_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "nowhere").write_text(content)
    with pytest.raises(TraceError, match=f"nowhere: .*{said}"):
        read_plans(tmp_path / "nowhere")
