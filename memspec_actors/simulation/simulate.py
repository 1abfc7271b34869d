"""Replay policies over the texts of a trace."""

from collections.abc import Callable, Sequence

from memspec_actors.comparison import BASE, STRICT, STRICT_DRAFT, Outcome
from memspec_actors.errors import TraceError
from memspec_actors.progress import Progress
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.simulation.planning import Planner
from memspec_actors.simulation.replay import Setting, replay
from memspec_actors.simulation.texts import Text, with_drafts

__all__ = ["POLICIES", "candidates", "simulate"]

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

    A traced draft named "general-strict" is nobody's to choose: it runs by itself, as the strict baseline. The rankers
    of policies that learn know nothing at the start of a text, but for what memspec+ has seen loads cost, and its
    probabilities be worth, in the texts before. Raises TraceError for no texts, ConfigError for unknown policies.
    """
    if not texts:
        raise TraceError("the trace holds no texts; collect some")
    names = candidates(texts[0])
    parsed = [parse_policy(policy, names) for policy in dict.fromkeys((BASE, *policies))]
    strict = [parse_policy(STRICT, [STRICT_DRAFT])] if STRICT_DRAFT in texts[0][0].drafts else []
    stage = _Stage(with_drafts(texts[0], names), setting, predictor)
    outcomes: list[Outcome] = []
    for number, text in enumerate(texts, 1):
        outcomes += [stage.play(with_drafts(text, names), policy) for policy in parsed]
        outcomes += [stage.play(with_drafts(text, [STRICT_DRAFT]), policy) for policy in strict]
        progress("simulate", number, len(texts))
    return outcomes


def candidates(text: Text) -> list[str]:
    """Return the traced drafts that policies choose from."""
    return [name for name in text[0].drafts if name != STRICT_DRAFT]


class _Stage:
    def __init__(self, text: Text, setting: Setting, predictor: Callable[[], Ranker]) -> None:
        self._setting = setting
        self._planner = Planner(text[0], setting)
        self._maker = RankerMaker(
            drafts=list(text[0].drafts),
            predictor=predictor,
            capacity=setting.capacity,
            fits=lambda drafts: len(drafts) <= setting.capacity,
        )

    def play(self, text: Text, policy: Policy) -> Outcome:
        plan = self._planner.plan(policy.name, text) if policy.needs_plan else None
        result = replay(*text, policy, lambda: self._maker.make(policy, plan=plan), self._setting)
        return Outcome(0, text[1].kind or "unknown", policy.name, result)
