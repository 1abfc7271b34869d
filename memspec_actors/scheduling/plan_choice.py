"""Which plan a request follows, if its policy follows one."""

from collections.abc import Mapping, Sequence

from memspec_actors.errors import ConfigError, InvalidRequest
from memspec_actors.protocols.traces import Plan
from memspec_actors.scheduling.plans import Plans, read_plans
from memspec_actors.scheduling.policy import Policy

__all__ = ["PlanFile"]


class PlanFile:
    """Hold the plans that an engine was given, or know that it was given none (``path`` None)."""

    def __init__(self, path: str | None, draft_names: Sequence[str]) -> None:
        self._path = path
        self._plans: Mapping[str, Plans] = {} if path is None else read_plans(path)
        planned = {name for plans in self._plans.values() for name in plans.header.drafts}
        if unknown := sorted(planned.difference(draft_names)):
            raise ConfigError(f"{path}: plans with a draft {unknown[0]!r}; the configured ones are {list(draft_names)}")

    def check(self, policy: Policy) -> None:
        """Raise ConfigError if the policy needs plans that are not there, or those of another oracle."""
        if not policy.needs_plan:
            return
        if not self._plans:
            raise ConfigError(
                f"policy {policy.name!r} needs a plan file: make one with `memspec simulate --traces FILE"
                f" --policy {policy.name} --write-plan FILE` and give it as [schedule] plan or --plan"
            )
        if policy.name not in self._plans:
            made_for = ", ".join(map(repr, self._plans))
            raise ConfigError(f"{self._path}: holds plans of {made_for}; policy {policy.name!r} needs its own")

    def plan_for(self, policy: Policy, prompt_ids: tuple[int, ...]) -> Plan | None:
        """Return the plan to follow. Raises ConfigError like `check`, InvalidRequest for a prompt without one."""
        self.check(policy)
        if not policy.needs_plan:
            return None
        plans = self._plans[policy.name].by_prompt
        if prompt_ids not in plans:
            raise InvalidRequest(
                f"{self._path}: holds no plan for this prompt of {len(prompt_ids)} tokens; plans are for the prompts of"
                " the traces that they were made from: trace this one with `memspec predictor collect`"
            )
        return plans[prompt_ids]
