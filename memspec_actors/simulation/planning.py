"""Plans of the oracles for traced texts, at a device's pace."""

from collections.abc import Callable, Mapping, Sequence

from memspec_actors.errors import ConfigError
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader, PlanStep, TraceHeader
from memspec_actors.scheduling.cache_machine import CacheMachine, Timing
from memspec_actors.scheduling.domain_plan import DomainOracle
from memspec_actors.scheduling.oracles import DynamicOracle, static_oracle
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.rankers import StaticRanker
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting, text_limit
from memspec_actors.simulation.texts import Text

__all__ = ["Planner", "plan_header"]

TICKS = 32
TICKS_FOR_MANY = 8  # with K > 2 there are many more states of the cache


class Planner:
    """Plan traced ``texts`` with any of the oracles: all of them have the same drafts.

    Under a stop rule of the setting's Oracle-Static tries every draft, and Oracle-Dynamic has no plan: it is exact for
    drafts of one length only.
    """

    def __init__(self, texts: Sequence[Text], setting: Setting) -> None:
        header, profile = texts[0][0], setting.profile
        self._setting = setting
        self._timing = Timing(
            tuple(profile.iteration_s(drafted) for drafted in range(header.k + 1)),
            tuple(profile.load_s(nbytes) for nbytes in header.draft_nbytes.values()),
        )
        machine = CacheMachine(
            self._timing,
            capacity=setting.capacity,
            interval=setting.schedule.interval,
            ticks=TICKS if setting.capacity <= 2 else TICKS_FOR_MANY,
        )
        self._dynamic = DynamicOracle(self._timing, machine)
        self._domains = DomainOracle(record for _, record in texts)
        self._oracles: Mapping[str, Callable[[Text], Plan]] = {
            "oracle-static": self._plan_static,
            "domain-oracle": lambda text: self._domains.plan(text[1]),
            "oracle-dynamic": self._plan_dynamic,
        }

    def plan(self, policy: str, text: Text) -> Plan:
        """Plan one text as the oracle named ``policy`` does.

        Raises ConfigError for any other policy, and for Oracle-Dynamic under a stop rule.
        """
        if policy not in self._oracles:
            raise ConfigError(f"policy {policy!r} follows no plan; the oracles are {', '.join(self._oracles)}")
        return self._oracles[policy](text)

    def _plan_static(self, text: Text) -> Plan:
        if self._setting.stop is None:
            return static_oracle(text[1], self._timing, text_limit(*text)).plan
        best = min(text[0].drafts, key=lambda name: self._replayed_s(text, name))
        return Plan(prompt_ids=text[1].prompt_ids, steps=(PlanStep(0, (best,)),))

    def _replayed_s(self, text: Text, name: str) -> float:
        """Return the decode time with one draft."""
        policy = parse_policy(f"static:{name}", [name])
        return replay(*text, policy, lambda: StaticRanker(name), self._setting).timing.decode_s

    def _plan_dynamic(self, text: Text) -> Plan:
        if self._setting.stop is not None:
            raise ConfigError(
                f"oracle-dynamic is exact for drafts of one length only, and stop is {self._setting.stop!r};"
                f" leave it out, or replay with --stop fixed:K"
            )
        prefill_s = self._setting.profile.target_s(len(text[1].prompt_ids))
        return self._dynamic.plan(text[1], text_limit(*text), prefill_s).plan


def plan_header(header: TraceHeader, setting: Setting, policy: str) -> PlanHeader:
    """Say what the plans of one oracle were made for."""
    return PlanHeader(
        format=PLAN_FORMAT,
        policy=policy,
        target=header.target,
        drafts=header.drafts,
        interval=setting.schedule.interval,
        capacity=setting.capacity,
        k=header.k,
    )
