"""If these fail, oracles plan for drafts of another length than are replayed, and bound nothing."""

import random

import pytest
from msgspec.structs import replace

from memspec_actors.errors import ConfigError
from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.scheduling.domain_plan import DomainOracle
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.rankers import StaticRanker
from memspec_actors.simulation.planning import Planner
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from memspec_actors.simulation.texts import Text
from tests.simulation.test_replay import profile
from tests.simulation.toys import Toys, schedule

DRAFTS = ("d0", "d1", "d2")


@pytest.fixture(scope="module")
def text() -> Text:
    toys = Toys(seed=2, rates=[0.3, 0.1, 0.6], max_new_tokens=90, k=5, eos_ids=frozenset(), sharpness=3.0)
    return toys.trace(free_runs=True)


def _setting(stop: str | None) -> Setting:
    return Setting(profile=profile(2.7), schedule=schedule(4), capacity=2, stop=stop)


@pytest.mark.parametrize("stop", [None, "gain", "heuristic"])
def test_oracle_static_is_the_draft_that_decodes_fastest(text: Text, stop: str | None) -> None:
    def decode_s(name: str) -> float:
        policy = parse_policy(f"static:{name}", DRAFTS)
        return replay(*text, policy, lambda: StaticRanker(name), _setting(stop)).timing.decode_s

    plan = Planner([text], _setting(stop)).plan("oracle-static", text)
    assert [step.order for step in plan.steps] == [(min(DRAFTS, key=decode_s),)]


def test_domain_oracle_knows_all_texts_that_are_planned(text: Text) -> None:
    header, record = text
    rng = random.Random(0)
    texts = [
        (header, replace(record, prompt_ids=(number,), accepted=_random_runs(rng, len(record.output_ids))))
        for number in range(5)
    ]
    oracle = DomainOracle(record for _, record in texts)
    planner = Planner(texts, _setting(None))
    assert [planner.plan("domain-oracle", each) for each in texts] == [oracle.plan(record) for _, record in texts]
    assert planner.plan("domain-oracle", texts[0]) != Planner(texts[:1], _setting(None)).plan("domain-oracle", texts[0])


def _random_runs(rng: random.Random, length: int) -> dict[str, tuple[int, ...]]:
    return {name: accepted_runs([rng.random() < 0.5 for _ in range(length)], 5) for name in DRAFTS}


def test_oracle_dynamic_plans_for_one_length_only(text: Text) -> None:
    assert Planner([text], _setting(None)).plan("oracle-dynamic", text).steps
    with pytest.raises(ConfigError, match=r"oracle-dynamic.*'gain'"):
        Planner([text], _setting("gain")).plan("oracle-dynamic", text)
