"""Replay policies over the texts of a trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from memspec_actors.comparison import BASE, STRICT, STRICT_DRAFT, Outcome
from memspec_actors.errors import TraceError
from memspec_actors.progress import Progress
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.simulation.planning import Planner
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from memspec_actors.simulation.texts import Text, recut, with_drafts
from memspec_actors.speculation.stop import FixedLength, stop_rule

__all__ = ["POLICIES", "candidates", "policies_under", "settled", "simulate"]

POLICIES = (
    BASE,
    "target-only",
    "oracle-static",
    "mab-sync",
    "mab-async",
    "prediction-only",
    "memspec",
    "memspec+",
    "domain-oracle",
    "oracle-dynamic",
)


def simulate(
    texts: Sequence[Text],
    policies: Sequence[str],
    setting: Setting,
    predictor: Callable[[], Ranker],
    progress: Progress = lambda what, done, total: None,
) -> list[Outcome]:
    """Decode every text under every policy, and General-Static beside them, each from a cold start.

    A traced draft named "general-strict" is nobody's to choose: it runs by itself, as the strict baseline. The
    rankers of policies that learn know nothing at the start of a text, but for what memspec+ has seen loads cost in
    the texts before. Raises TraceError for no texts, or none with what the setting's stop rule goes by, and
    ConfigError for unknown policies, or Oracle-Dynamic under a rule that varies the length of drafts.
    """
    if not texts:
        raise TraceError("the trace holds no texts; collect some")
    texts, setting = settled(texts, setting)
    names = candidates(texts[0])
    parsed = [parse_policy(policy, names) for policy in dict.fromkeys((BASE, *policies))]
    strict = [parse_policy(STRICT, [STRICT_DRAFT])] if STRICT_DRAFT in texts[0][0].drafts else []
    narrowed = [with_drafts(text, names) for text in texts]
    stage = _Stage(narrowed, setting, predictor)
    outcomes: list[Outcome] = []
    for number, (text, own) in enumerate(zip(texts, narrowed, strict=True), 1):
        outcomes += [stage.play(own, policy) for policy in parsed]
        outcomes += [stage.play(with_drafts(text, [STRICT_DRAFT]), policy) for policy in strict]
        progress("simulate", number, len(texts))
    return outcomes


def settled(texts: Sequence[Text], setting: Setting) -> tuple[Sequence[Text], Setting]:
    """Return texts and setting for a fixed draft length as if the texts had been traced for it; others as they are."""
    rule = None if setting.stop is None else stop_rule(setting.stop)
    if type(rule) is not FixedLength or rule.max_tokens == 0:
        return texts, setting
    return [recut(text, rule.max_tokens) for text in texts], replace(setting, stop=None)


def policies_under(setting: Setting) -> Sequence[str]:
    """Return all policies that can be replayed in a setting: Oracle-Dynamic plans for one draft length only."""
    return POLICIES if setting.stop is None else [policy for policy in POLICIES if policy != "oracle-dynamic"]


def candidates(text: Text) -> list[str]:
    """Return the traced drafts that policies choose from."""
    return [name for name in text[0].drafts if name != STRICT_DRAFT]


class _Stage:
    def __init__(self, texts: Sequence[Text], setting: Setting, predictor: Callable[[], Ranker]) -> None:
        self._setting = setting
        self._planner = Planner(texts, setting)
        self._maker = RankerMaker(
            drafts=list(texts[0][0].drafts),
            predictor=predictor,
            capacity=setting.capacity,
            fits=lambda drafts: len(drafts) <= setting.capacity,
        )

    def play(self, text: Text, policy: Policy) -> Outcome:
        plan = self._planner.plan(policy.name, text) if policy.needs_plan else None
        result = replay(*text, policy, lambda: self._maker.make(policy, plan=plan), self._setting)
        return Outcome(0, text[1].kind or "unknown", policy.name, result)
