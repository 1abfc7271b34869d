"""Methods, lossless and lossy, through the whole engine, on the embedded models."""

import logging
from pathlib import Path

import pytest

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.config import EventsConfig, ScheduleConfig, SpeculationConfig
from memspec_actors.models import token_rules
from memspec_actors.models.token_rules import TokenRules
from memspec_actors.protocols import events
from memspec_actors.speculation.stop import StopRule, stop_rule
from memspec_actors.telemetry.audit import audit
from memspec_actors.telemetry.reader import EventReader, read_events
from tests.engines import zoo_prompt
from tests.patience import until

pytestmark = pytest.mark.anyio

PROMPT = zoo_prompt("general", "law", seed="adasd")
TOKENS = 60
INLINE = ScheduleConfig(prediction="inline")  # so that the very first iteration drafts


async def keep(engine: MemSpec, *drafts: str) -> None:
    """Have drafts in memory for good: what a lossy rule lets through depends on which draft there is."""
    for draft in drafts:
        await engine.steer_draft("pin", draft)
    await until(lambda: set(drafts) <= set(engine.residency().resident))


async def test_lossless_methods_give_the_targets_text_and_lossy_ones_say_what_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Behaviour 7 under every stop rule; a lossy text would pass for the target's own."""
    path = tmp_path / "events.jsonl"
    async with MemSpec.open(Config(events=EventsConfig(path=str(path)), schedule=INLINE)) as engine:
        reference = await engine.generate(PROMPT, max_new_tokens=TOKENS, method="target")
        for options in (
            {"method": "vanilla"}, {"method": "gen-only"}, {"method": "assistedgen"}, {"stop": "heuristic"},
            {"stop": "adaedl"}, {"stop": "gain"}, {"method": "gen-only", "policy": "static:general"},
        ):  # fmt: skip
            result = await engine.generate(PROMPT, max_new_tokens=TOKENS, **options)
            assert result.token_ids == reference.token_ids, options
            assert result.lossless and result.metrics.departures.num_tokens == 0
        assert not caplog.records
        await keep(engine, "general")
        lossy = [
            await engine.generate(PROMPT, max_new_tokens=TOKENS, method="adasd", policy="static:general")
            for _ in range(2)
        ]
        assert lossy[0].token_ids == lossy[1].token_ids, "what is learned is applied where it says: the text is fixed"
        assert not lossy[0].lossless
        assert [record.levelno for record in caplog.records] == [logging.WARNING], "noted once"
        assert "accept 'bayes' is lossy" in caplog.text

    records = list(read_events(path))
    ids = [record.request_id for record in records if isinstance(record, events.RequestAccepted)]
    published = [record for record in records if isinstance(record, events.ThresholdsPublishedEvent)]
    iterations = [record for record in records if isinstance(record, events.Iteration)]
    last = ids[-1]
    assert [each.iteration for each in published if each.request_id == last] == [
        -1,
        *(each.iteration for each in iterations if each.request_id == last),
    ]
    waits = [each for each in iterations if each.waited_for == "thresholds"]
    assert {each.request_id for each in waits} <= set(ids[-2:]), "lossless greedy text needs no wait"
    departures = sum(each.departures for each in iterations if each.request_id == last)
    assert departures == lossy[1].metrics.departures.num_tokens
    assert audit(EventReader(path)).violations == ()


async def test_sampled_text_under_a_lossy_rule_is_a_function_of_seed_and_drafts() -> None:
    """Behaviours 11 and 25: what one text taught would leak into another, or the speed of an actor decide."""
    sampling = SamplingParams(temperature=1.0, seed=3)
    async with MemSpec.open(Config(speculation=SpeculationConfig(method="adasd"), schedule=INLINE)) as engine:
        texts = []
        await keep(engine, "law", "general")
        for _ in range(2):
            result = await engine.generate(PROMPT, max_new_tokens=TOKENS, sampling=sampling, policy="static:general")
            texts.append(result.token_ids)
            await engine.generate(PROMPT, max_new_tokens=20, policy="static:law")
    assert texts[0] == texts[1]


HELD = {"entropy": 0.4, "confidence": 0.7, "adaedl": 0.8, "gain": 0.6, "heuristic": 4.0}


def held(spec: str) -> StopRule:
    """Return a rule that learns nothing more."""
    rule = stop_rule(spec)
    if spec in HELD:
        rule.adapt(HELD[spec], tuple((i + 1) / 24 for i in range(24)) if spec == "gain" else ())
    return rule


@pytest.mark.parametrize(("accept", "temperature"), [("auto", 0.0), ("bayes", 0.0), ("auto", 1.0), ("rejection", 1.0)])
async def test_drafting_in_one_call_gives_text_and_lengths_of_drafting_token_by_token(
    accept: str, temperature: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs outside Python would follow other rules than the ones that are named."""
    monkeypatch.setattr("memspec_actors.sessions.stop_rule", held)
    monkeypatch.setattr(TokenRules, "adapt", lambda rules, thresholds: None)
    path, ids = tmp_path / "events.jsonl", []
    async with MemSpec.open(Config(events=EventsConfig(path=str(path)), schedule=INLINE)) as engine:
        await keep(engine, "general")
        for stop in ("fixed:5", *HELD):
            options = {
                "max_new_tokens": 40, "policy": "static:general", "stop": stop, "accept": accept,
                "sampling": SamplingParams(temperature=temperature, seed=5),
            }  # fmt: skip
            result = await engine.generate(PROMPT, **options)
            with monkeypatch.context() as patch:
                patch.setattr(token_rules, "criterion_of", lambda rule: None)
                slow = await engine.generate(PROMPT, **options)
            assert result.token_ids == slow.token_ids
            ids += [result.request_id, slow.request_id]
    iterations = [record for record in read_events(path) if isinstance(record, events.Iteration)]
    drafted = [[(each.drafted, each.accepted) for each in iterations if each.request_id == one] for one in ids]
    assert drafted[::2] == drafted[1::2] and min(map(len, drafted)) > 3
    assert len({num for each in drafted for num, _ in each}) > 4, "all lengths are alike: little is compared"


async def test_a_draft_alone_decodes_its_own_text_and_says_so() -> None:
    async with MemSpec.open(Config(speculation=SpeculationConfig(method="draft:law"))) as engine:
        result = await engine.generate(PROMPT, max_new_tokens=20)
    assert not result.lossless
    assert result.scheduling.policy == "target-only" and result.scheduling.drafts == {}
