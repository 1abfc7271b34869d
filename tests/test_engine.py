"""The main job on the embedded models, through the public library."""

import random
import shutil
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.config import DraftConfig, EventsConfig, ScheduleConfig
from memspec_actors.errors import ConfigError, InvalidRequest
from memspec_actors.protocols import events
from memspec_actors.protocols.traces import PLAN_FORMAT, Plan, PlanHeader, PlanStep
from memspec_actors.scheduling.plans import write_plans
from memspec_actors.telemetry.reader import read_events
from memspec_actors.zoo import path as zoo_path
from memspec_actors.zoo.world import sample_phases, sample_request
from tests.engines import MIXED, with_events

pytestmark = pytest.mark.anyio

POLICIES = (
    "target-only",
    "general-static",
    "static:law",
    "prediction-only",
    "mab-sync",
    "mab-async",
    "mab-exp3",
    "hedge",
    "memspec+",
)


async def test_greedy_text_equals_transformers_under_every_policy() -> None:
    """Speculation would change the text."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(zoo_path("target"), dtype=torch.float32)
    rng = random.Random("eval:identity")
    prompts: list[str] = [sample_request(rng, sample_phases(rng), split="eval").prompt_text for _ in range(6)]
    prompts += ["Who wrote the Odyssey?", "def fib(n):\n    ", "Ünïcödé ≠ ASCII; 日本語 🙂"]
    async with MemSpec.open() as engine:
        for number, prompt in enumerate(prompts):
            ids = engine.encode(prompt)
            inputs = torch.tensor([ids])
            output = model.generate(
                inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=64, do_sample=False,
                eos_token_id=list(engine.end_ids),
            )  # fmt: skip
            expected = tuple(output[0, len(ids) :].tolist())
            for policy in (POLICIES[number % len(POLICIES)], POLICIES[(number + 5) % len(POLICIES)], "memspec"):
                result = await engine.generate(prompt, max_new_tokens=64, policy=policy)
                assert result.token_ids == expected, f"{policy} on {prompt!r}"
                assert result.finish_reason == ("stop" if expected[-1] in engine.end_ids else "length")


async def test_an_answer_that_changes_domain_makes_drafts_come_and_go(tmp_path: Path) -> None:
    """The product's claim: predictions, prefetches, evictions and switches, and no wait for any of them."""
    path = tmp_path / "events.jsonl"
    async with MemSpec.open(with_events(path)) as engine:
        result = await engine.generate(MIXED, max_new_tokens=256)
    records = list(read_events(path))
    kinds = {type(record) for record in records}
    assert {
        events.SystemStarted, events.RequestAccepted, events.PredictionMade, events.RankingApplied,
        events.DraftLoadStarted, events.DraftLoadFinished, events.ResidencyAnnouncedEvent, events.DraftActivatedEvent,
        events.DraftRevoked, events.DraftEvicted, events.Iteration, events.IntervalFinished, events.RequestFinished,
        events.SystemStopped,
    } <= kinds  # fmt: skip
    assert result.scheduling.switches >= 2
    iterations = [record for record in records if isinstance(record, events.Iteration)]
    announced = {r.epoch: r.resident for r in records if isinstance(r, events.ResidencyAnnouncedEvent)}
    assert all(record.draft is None or record.draft in announced[record.epoch] for record in iterations)
    assert all(len(resident) <= 2 for resident in announced.values())
    assert [record.seq for record in records if isinstance(record, events.Event)] == list(range(1, len(records) + 1))


async def test_the_result_adds_up() -> None:
    """The figures that the JSON carries would contradict each other, the chunks or the engine's statistics."""
    async with MemSpec.open() as engine:
        stream = engine.stream(MIXED, max_new_tokens=200)
        chunks = [chunk async for chunk in stream]
        result = stream.result
        statistics = await engine.statistics()
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == result.token_ids
    spec = result.metrics.speculative_decoding
    assert sum(spec.acceptance_histogram) == spec.num_accepted_draft_tokens <= spec.num_draft_tokens
    assert spec.mean_acceptance_length == pytest.approx(1 + spec.num_accepted_draft_tokens / spec.num_spec_steps)
    drafts = result.scheduling.drafts
    plain_steps = sum(chunk.drafted == 0 for chunk in chunks)  # the prompt's encoding among them
    assert sum(figures.tokens for figures in drafts.values()) + plain_steps == len(result.token_ids)
    assert sum(figures.iterations for figures in drafts.values()) == spec.num_spec_steps
    share = result.scheduling.share
    assert share.desired + share.fallback + share.prediction + share.catch_up + share.target_only == pytest.approx(1)
    assert result.usage.completion_tokens == len(result.token_ids)
    assert statistics.speculative_decoding == spec
    assert result.lossless


@pytest.mark.parametrize("accept", ["match", "rejection"])
async def test_sampling_follows_the_targets_distribution(accept: str) -> None:
    """Lossless in distribution through the whole engine: the second token, over many seeds, against its exact law."""
    stats = pytest.importorskip("scipy.stats")
    from memspec_actors.models.checkpoints.checkpoint import Checkpoint
    from memspec_actors.models.weights.opening import open_runner

    runner = open_runner(Checkpoint.open(zoo_path("target")), dtype="float32")
    sampling = SamplingParams(temperature=2.0, top_k=4)
    num = 400
    async with MemSpec.open() as engine:
        ids = engine.encode("visit the harbour")
        texts = [
            (
                await engine.generate(
                    ids, max_new_tokens=3, sampling=replace(sampling, seed=seed), policy="static:law", accept=accept
                )
            ).token_ids
            for seed in range(num)
        ]
    expected: dict[tuple[int, ...], float] = {}
    logits = runner.forward(ids, runner.new_cache(64), logits_to_keep=1)[0]
    for p1, first in zip(*_top(logits), strict=True):
        logits2 = runner.forward([*ids, first], runner.new_cache(64), logits_to_keep=1)[0]
        for p2, second in zip(*_top(logits2), strict=True):
            expected[first, second] = p1 * p2
    observed = [sum(text[:2] == pair for text in texts) for pair in expected]
    assert sum(observed) == num, "a token outside the filter was drawn"
    kept = [(o, num * p) for o, p in zip(observed, expected.values(), strict=True) if num * p >= 5]
    rest = (num - sum(o for o, _ in kept), num - sum(e for _, e in kept))
    cells = [*kept, rest] if rest[1] >= 1 else kept
    scale = sum(o for o, _ in cells) / sum(e for _, e in cells)
    assert stats.chisquare([o for o, _ in cells], [e * scale for _, e in cells]).pvalue > 1e-5


def _top(logits: torch.Tensor) -> tuple[list[float], list[int]]:
    """Temperature 2, then the four likeliest: their probabilities and ids."""
    best = (logits.double() / 2.0).topk(4)
    return best.values.softmax(-1).tolist(), best.indices.tolist()


async def test_a_missing_draft_file_costs_only_that_draft(tmp_path: Path) -> None:
    """A draft's file vanishes after it was checked: generation would fail, or nobody would learn which file it was."""
    copy = tmp_path / "law"
    shutil.copytree(zoo_path("law"), copy)
    log = tmp_path / "events.jsonl"
    drafts = (DraftConfig(name="general"), DraftConfig(name="law", model=str(copy)))
    config = replace(with_events(log), drafts=drafts)
    async with MemSpec.open(config) as engine:
        (copy / "model.safetensors").unlink()
        reference = await engine.generate(MIXED, max_new_tokens=60, policy="target-only")
        with_failure = await engine.generate(MIXED, max_new_tokens=60, policy="static:law")  # its draft is tried again
        snapshot = engine.residency()
    assert with_failure.token_ids == reference.token_ids
    assert with_failure.scheduling.share.target_only == 1
    assert snapshot.unavailable == ("law",)
    assert snapshot.resident_bytes == snapshot.reserved_bytes == 0
    failures = [record for record in read_events(log) if isinstance(record, events.DraftLoadFailed)]
    assert failures and all(str(copy / "model.safetensors") in failure.error for failure in failures)


async def test_a_target_without_drafts_is_served() -> None:
    """The reference that everything is compared with, and what a target given by path comes with."""
    async with MemSpec.open(Config(drafts=(), schedule=ScheduleConfig(policy="target-only"))) as engine:
        result = await engine.generate("hello", max_new_tokens=4, sampling=SamplingParams(ignore_eos=True))
    assert len(result.token_ids) == 4
    assert result.scheduling.share.target_only == 1


async def test_an_oracle_follows_the_plan_of_its_prompt(tmp_path: Path) -> None:
    """The upper bound that every policy is measured by would be something else."""
    async with MemSpec.open() as engine:
        ids = engine.encode(MIXED)
        expected = (await engine.generate(MIXED, max_new_tokens=80, policy="target-only")).token_ids
        with pytest.raises(ConfigError, match="needs a plan file"):
            engine.stream(MIXED, policy="oracle-dynamic")
    drafts = ("general", "code", "math", "law", "medical")
    header = PlanHeader(
        format=PLAN_FORMAT,
        policy="oracle-dynamic",
        target="",
        drafts=dict.fromkeys(drafts, ""),
        interval=4,
        capacity=2,
        k=5,
    )
    steps = (PlanStep(0, ("law", "code")), PlanStep(40, ("code", "law")))
    write_plans(tmp_path / "plans", header, [Plan(prompt_ids=ids, steps=steps)])
    schedule = ScheduleConfig(policy="oracle-dynamic", plan=str(tmp_path / "plans"), prediction="inline")
    async with MemSpec.open(Config(schedule=schedule, events=EventsConfig(path=str(tmp_path / "log")))) as engine:
        result = await engine.generate(MIXED, max_new_tokens=80)
        assert result.token_ids == expected
        with pytest.raises(InvalidRequest, match="no plan for this prompt"):
            engine.stream("another prompt")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.PredictionMade)]
    orders = [event.order for event in records]
    assert orders[0] == ("law", "code") and orders[-1] == ("code", "law")
    assert set(result.scheduling.drafts) <= {"law", "code"}
