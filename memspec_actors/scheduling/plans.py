"""Read, write and follow plans: how an oracle ranks the drafts along the texts of known prompts."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from memspec_actors.errors import TraceError
from memspec_actors.output_files import write_whole
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader
from memspec_actors.scheduling.rankers import Ranking, RankingContext

__all__ = ["PlanRanker", "Plans", "read_plans", "write_plans"]

HEADER_BEGINS = b'{"format":'

Line = TypeVar("Line")


class Plans(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the plans of one oracle by prompt ids."""

    header: PlanHeader
    by_prompt: Mapping[tuple[int, ...], Plan]


class PlanRanker:
    """Rank as a plan says: by the step whose position is nearest to where the text is."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def rank(self, context: RankingContext) -> Ranking:
        order = min(self._plan.steps, key=lambda step: abs(step.position - context.num_generated)).order
        return Ranking(order, tuple(1.0 / rank for rank in range(1, len(order) + 1)))

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing: the plan knows the future."""


def read_plans(path: str | Path) -> dict[str, Plans]:
    """Read a plan file, by oracle: plans follow the header that they were made under.

    Raises TraceError naming the file and the line for anything that is no whole plan.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; write plans with `memspec simulate --write-plan`") from error
    if not lines:
        raise TraceError(f"{path}: the file is empty; a plan file begins with its header")
    header: PlanHeader | None = None
    plans: dict[str, dict[tuple[int, ...], Plan]] = {}
    headers: dict[str, PlanHeader] = {}
    for number, line in enumerate(lines, 1):
        if header is None or line.startswith(HEADER_BEGINS):
            header = _header(path, number, line)
            if headers.setdefault(header.policy, header) != header:
                raise TraceError(
                    f"{path}, line {number}: plans of {header.policy!r} made in another setting than before"
                )
            plans.setdefault(header.policy, {})
        else:
            plan = _decode(path, number, line, Plan)
            _check(path, number, plan, header)
            plans[header.policy][plan.prompt_ids] = plan
    return {policy: Plans(header=headers[policy], by_prompt=plans[policy]) for policy in plans}


def write_plans(path: str | Path, header: PlanHeader, plans: Iterable[Plan]) -> None:
    """Write a plan file. Raises UsageError if that cannot be done."""
    encode = msgspec.json.Encoder().encode
    write_whole(Path(path), b"".join(encode(line) + b"\n" for line in (header, *plans)))


def _header(path: str | Path, number: int, line: bytes) -> PlanHeader:
    header = _decode(path, number, line, PlanHeader)
    if header.format != PLAN_FORMAT:
        raise TraceError(
            f"{path}, line {number}: format {header.format!r} is not {PLAN_FORMAT!r}; write the plans again"
        )
    return header


def _decode(path: str | Path, number: int, line: bytes, kind: type[Line]) -> Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}, line {number}: {error}; write the plans again") from error


def _check(path: str | Path, number: int, plan: Plan, header: PlanHeader) -> None:
    where = f"{path}, line {number}"
    positions = [step.position for step in plan.steps]
    if not positions or positions[0] != 0 or any(b <= a for a, b in itertools.pairwise(positions)):
        raise TraceError(f"{where}: steps at positions {positions}; they must begin at 0 and grow")
    for step in plan.steps:
        if not set(step.order) <= set(header.drafts) or len(set(step.order)) != len(step.order):
            raise TraceError(f"{where}: order {list(step.order)} must name drafts of {list(header.drafts)} once each")
