"""Drafting in one call drafts what the draft says token by token, and stops where its rule does."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig

from memspec_actors.models import token_rules
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.kernels.linear import LinearMap
from memspec_actors.models.lean import runner as lean
from memspec_actors.models.lean.drafting_pass import DraftingPass
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.lean.weights import ModelWeights
from memspec_actors.models.runner import Cache, Runner
from memspec_actors.models.token_rules import TokenRules
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.speculation.criterion import StopCriterion, resumed
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import StopRule, criterion_of, stop_rule
from tests.models.conftest import CONFIGS, SHORT, save_random

NUM_POSITIONS = 64
RUNNERS = ["llama", "llama-bfloat16", "llama-sick", "llama-unscripted", "mistral"]


def random_ids(num: int, seed: int = 0) -> list[int]:
    ids: list[int] = torch.randint(97, (num,), generator=torch.Generator().manual_seed(seed)).tolist()
    return ids


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LeanRunner]:
    """Return runners of small random models; what the sick one says after some tokens is NaN."""
    made: dict[str, LeanRunner] = {}
    nothing = torch.empty(0)
    unscripted = DraftingPass(ModelWeights(nothing, [], nothing, LinearMap([])), 1, 1, 1.0)
    for name in RUNNERS:
        kind, _, variant = name.partition("-")
        directory = tmp_path_factory.mktemp(name)
        config = LlamaConfig(**SHORT, num_key_value_heads=2) if kind == "llama" else CONFIGS[kind]()
        save_random(directory, config, torch.float32)
        tensors = load_file(directory / "model.safetensors")
        tensors["lm_head.weight"] *= 4.0  # sure of some tokens, and not of others
        if variant == "sick":
            tensors["model.embed_tokens.weight"][::7] = math.nan
        save_file(tensors, directory / "model.safetensors")
        with pytest.MonkeyPatch.context() as patch:
            if variant == "unscripted":
                patch.setattr(lean, "_code", lambda: unscripted)
            runner = open_runner(Checkpoint.open(directory), dtype="bfloat16" if variant == "bfloat16" else "float32")
        assert isinstance(runner, LeanRunner)
        made[name] = runner
    return made


class TokenByToken:
    """Run a model, but draft with it no other way than token by token."""

    def __init__(self, runner: Runner) -> None:
        self.vocab_size, self.max_positions = runner.vocab_size, runner.max_positions
        self.dtype, self.nbytes = runner.dtype, runner.nbytes
        self._runner = runner

    def new_cache(self, max_tokens: int) -> Cache:
        return self._runner.new_cache(max_tokens)

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        return self._runner.forward(ids, cache, logits_to_keep)


METHODS = [
    ("exact", SamplingParams()),
    ("bayes", SamplingParams()),
    ("match", SamplingParams(temperature=0.8)),
    ("match", SamplingParams(temperature=1.3, top_k=20, min_p=0.02)),
    ("rejection", SamplingParams(temperature=1, top_p=0.9)),
    ("match", SamplingParams(temperature=5e-324, top_k=10**20, top_p=1e-300, min_p=1)),
]


def rules_of(rule: StopRule, accept: str, sampling: SamplingParams) -> TokenRules:
    request = GenerationRequest(
        request_id="r", prompt_ids=(1,), max_new_tokens=60, sampling=sampling, seed=0, policy="static:a",
        stop_rule="", accept=accept, lossless=True,
    )  # fmt: skip
    return TokenRules(request, 97, acceptance_rule(accept, greedy=sampling.greedy), rule, None)


SPREAD = {"entropy": (0.0, 3.0), "confidence": (0.0, 1.0), "adaedl": (-0.2, 1.0), "gain": (0.0, 1.0)}


@st.composite
def stop_rules(draw: st.DrawFn) -> StopRule:
    """Draw any rule by its name, as it is at first or with something learned."""
    name = draw(st.sampled_from(["fixed:1", "fixed:7", "heuristic", *SPREAD]))
    rule = stop_rule(name)
    if name == "heuristic":
        rule.adapt(draw(st.integers(1, 20)))
    elif name in SPREAD and draw(st.integers(0, 5)):
        calibration = st.lists(st.floats(0.0, 1.0), min_size=24, max_size=24).map(tuple)
        rule.adapt(draw(st.floats(*SPREAD[name])), draw(st.just(()) | calibration) if name == "gain" else ())
    return rule


@settings(max_examples=200)
@given(
    name=st.sampled_from(RUNNERS),
    rule=stop_rules(),
    method=st.sampled_from(METHODS),
    seed=st.integers(0, 1000),
    num_read=st.integers(0, NUM_POSITIONS - 3),
    num_unread=st.integers(1, 2),
    most=st.integers(1, 40),
    num_ids=st.sampled_from([1, 2, 50, 96, 97]),
    piece=st.sampled_from([1, 3, 40]),
)
def test_few_calls_draft_what_a_loop_over_tokens_does(
    runners: dict[str, LeanRunner],
    name: str,
    rule: StopRule,
    method: tuple[str, SamplingParams],
    seed: int,
    num_read: int,
    num_unread: int,
    most: int,
    num_ids: int,
    piece: int,
) -> None:
    """Else the length of a draft, and all that is learned from its signals, would depend on how it was drafted."""
    tokens, runner = random_ids(num_read + num_unread, seed), runners[name]
    length = min(most, rule.max_tokens, NUM_POSITIONS - len(tokens))
    found, probs, after = [], [], []
    for each in (runner, TokenByToken(runner)):
        cache = each.new_cache(NUM_POSITIONS)
        if num_read:
            each.forward(tokens[:num_read], cache, logits_to_keep=1)
        bound, rules = BoundDraft(ResidentDraft("a", 1), each, num_ids), rules_of(rule, *method)
        with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(token_rules, "VARIATES_AT_ONCE", piece * 97)
            proposal, signals = rules.draft(bound, cache, tokens, length)
        found.append((proposal.ids, signals))
        probs.append(proposal.probs)
        assert cache.length >= len(tokens) + len(proposal.ids) - 1
        cache.truncate(len(tokens) + len(proposal.ids) - 1)
        after.append(each.forward([5], cache))
    (ids, signals), (expected_ids, expected_signals) = found
    assert ids == expected_ids and all(token < num_ids for token in ids)
    assert signals == pytest.approx(expected_signals, abs=1e-4, nan_ok=True)
    torch.testing.assert_close(*probs, atol=1e-4, rtol=0, equal_nan=True)
    if ids:  # else the last token read is NaN, and in a block so are those before it
        torch.testing.assert_close(*after, atol=1e-3, rtol=0, equal_nan=True)


def test_a_rule_stops_a_call_before_its_bound(runners: dict[str, LeanRunner]) -> None:
    """The comparison above would compare full lengths only, or none that a model's distributions cut."""
    rule, lengths = stop_rule("confidence"), []
    criterion = criterion_of(rule)
    assert criterion is not None
    for seed in range(20):
        cache = runners["llama"].new_cache(NUM_POSITIONS)
        ids, signals, _ = runners["llama"].draft_until(random_ids(9, seed), cache, 20, 97, criterion)
        assert all(signal >= 0.4 for signal in signals[:-1])
        assert signals[-1] < 0.4 or len(ids) == 20
        lengths.append(len(ids))
    assert len(set(lengths)) >= 3


def test_a_draft_that_is_resumed_is_the_same_draft(runners: dict[str, LeanRunner]) -> None:
    """Doubts about the first tokens would be forgotten, and sampled drafts of large vocabularies grow too long."""
    criterion, runner, num_resumed = StopCriterion(20, "confidence", 0.05, chained=True), runners["llama"], 0
    for seed in range(20):
        whole, signals, _ = runner.draft_until(random_ids(9, seed), runner.new_cache(64), 20, 97, criterion)
        if len(whole) < 3:
            continue
        cache = runner.new_cache(64)
        ids, *_ = runner.draft_until(random_ids(9, seed), cache, 2, 97, criterion)
        more, *_ = runner.draft_until(ids[-1:], cache, 18, 97, resumed(criterion, 2, signals[0] * signals[1]))
        assert ids + more == whole
        num_resumed += len(whole) < 20
    assert num_resumed >= 5


def test_a_draft_that_went_wrong_ends(runners: dict[str, LeanRunner]) -> None:
    """NaN compares as nothing: a draft would be drafted to its bound, all in vain."""
    for name in SPREAD:
        rule = stop_rule(name)
        rule.adapt(5.0 if name == "entropy" else -1.0, (1.0,) * 24 if name == "gain" else ())
        criterion = criterion_of(rule)
        assert criterion is not None
        cache = runners["llama-sick"].new_cache(NUM_POSITIONS)
        ids, signals, _ = runners["llama-sick"].draft_until([3, 14], cache, 20, 97, criterion)
        assert len(ids) == 1 and not signals[0] > -math.inf


def test_refused_drafting_leaves_the_cache_as_it_was(runners: dict[str, LeanRunner]) -> None:
    """Else one bad request would spoil the sequence it belongs to."""
    runner, stop = runners["llama"], StopCriterion(20)
    cache = runner.new_cache(NUM_POSITIONS)
    runner.forward(random_ids(NUM_POSITIONS - 3), cache)
    for ids, num, error in (([5], 5, ValueError), ([], 1, ValueError), ([97], 1, IndexError), ([5, -1], 1, IndexError)):
        with pytest.raises(error):
            runner.draft_until(ids, cache, num, 97, stop)
        assert cache.length == NUM_POSITIONS - 3
    ids, *_ = runner.draft_until([5], cache, 3, 97, stop)
    assert len(ids) == 3 and cache.length == NUM_POSITIONS
