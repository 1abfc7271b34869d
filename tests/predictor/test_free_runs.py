"""If these fail, a replay stops drafts elsewhere than the engine would: it goes by doubts that the draft never had."""

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.models.runner import Runner
from memspec_actors.models.testing import ToyRunner
from memspec_actors.predictor.collect import collect
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.reading import Tracer
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.protocols.traces import FreeRun

LONGEST = 40  # tokens that any rule drafts

Sure = tuple[float, float]


def _said(logits: Sequence[float]) -> tuple[int, float, float]:
    """Return the likeliest id, its probability and the entropy, by the textbook."""
    total = math.fsum(math.exp(each) for each in logits)
    probs = [math.exp(each) / total for each in logits]
    return probs.index(max(probs)), max(probs), -math.fsum(p * math.log(p) for p in probs if p > 0)


def _literal(draft: ToyRunner, prefix: Sequence[int], num: int, ids: Sequence[int]) -> list[Sure]:
    """Draft ``num`` tokens one by one after ``prefix``."""
    tokens, sure = list(prefix), []
    for _ in range(num):
        best, confidence, entropy = _said([float(draft.logits(tokens)[each]) for each in ids])
        tokens.append(ids[best])
        sure.append((confidence, entropy))
    return sure


def _recorded(runs: Sequence[FreeRun], position: int, num: int) -> list[Sure]:
    """Read off what a draft begun at ``position`` would say: the run that was begun there, or last before."""
    run = [run for run in runs if run.start <= position][-1]
    confidences = [each for (each,) in struct.iter_unpack("<f", run.confidences)]
    entropies = [each for (each,) in struct.iter_unpack("<f", run.entropies)]
    first = position - run.start
    return list(zip(confidences, entropies, strict=True))[first : first + num]


def _flat(sure: Sequence[Sure]) -> list[float]:
    return [each for pair in sure for each in pair]


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    rates=st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=1, max_size=2),
    max_new_tokens=st.integers(1, 60),
    ends=st.booleans(),
    gaps=st.frozensets(st.integers(1, 16), max_size=3),
)
def test_a_draft_begun_anywhere_is_as_sure_as_its_free_run_says(
    seed: int, rates: list[float], max_new_tokens: int, ends: bool, gaps: frozenset[int]
) -> None:
    """Before and after its first mistake, beyond the end of the text too, as long as the text could have become."""
    ids, prompt = [each for each in range(15) if each not in gaps], [5, 6]
    target, eos_ids = ToyRunner(seed=seed), frozenset({0} if ends else ())
    toys = {f"d{i}": ToyRunner(seed=seed, error_rate=rate, error_seed=i + 1) for i, rate in enumerate(rates)}
    drafts: dict[str, tuple[Runner, int]] = {name: (toy, 15) for name, toy in toys.items()}
    tracer = Tracer(target=target, drafts=drafts, num_ids=15, eos_ids=eos_ids, k=3, gap_ids=tuple(gaps), free_runs=True)
    record, _ = tracer.trace(prompt, max_new_tokens)
    assert record.free_runs is not None
    for name, toy in toys.items():
        for position in range(len(record.output_ids)):
            num = min(LONGEST, max_new_tokens - 1 - position)  # the target adds the last token
            if num > 0:
                literal = _literal(toy, [*prompt, *record.output_ids[:position]], num, ids)
                recorded = _recorded(record.free_runs[name], position, num)
                assert _flat(recorded) == pytest.approx(_flat(literal), abs=1e-5)


def test_a_draft_runs_no_further_than_its_context_and_not_from_words_that_it_does_not_know() -> None:
    target, toys = (
        ToyRunner(seed=4),
        {"short": ToyRunner(seed=4, max_positions=20), "narrow": ToyRunner(seed=4, vocab_size=12)},
    )
    drafts: dict[str, tuple[Runner, int]] = {"short": (toys["short"], 17), "narrow": (toys["narrow"], 12)}
    tracer = Tracer(target=target, drafts=drafts, num_ids=17, eos_ids=frozenset(), k=4, free_runs=True)
    record, _ = tracer.trace([5, 6], 60)
    assert record.free_runs is not None
    unknown = next(t for t, token in enumerate(record.output_ids) if token >= 12)
    (short,) = record.free_runs["short"]
    assert len(_recorded([short], 0, LONGEST)) == 20 - 2, "its context"
    assert record.free_runs["narrow"][-1].start <= unknown


def test_without_being_asked_no_draft_runs_freely() -> None:
    tracer = Tracer(target=ToyRunner(), drafts={"d": (ToyRunner(), 17)}, num_ids=17, eos_ids=frozenset(), k=4)
    record, _ = tracer.trace([5, 6], 9)
    assert record.free_runs is None


@torch.inference_mode()
def test_free_runs_of_a_checkpoint_are_what_transformers_says(tiny_models: Path, tmp_path: Path) -> None:
    """The lean runner runs on in one call; a token's confidence is that of all ids that the tokenizer has."""
    from transformers import LlamaForCausalLM

    path = tmp_path / "t"
    collect(
        tiny_models / "target",
        {"near": tiny_models / "near"},
        [Prompt("w3 w4 w5")],
        path,
        max_new_tokens=50,
        free_runs=True,
    )
    (record,) = TraceReader(path)
    model = LlamaForCausalLM.from_pretrained(tiny_models / "near")
    assert record.free_runs is not None
    runs, wrong = record.free_runs["near"], record.accepted["near"].count(0)
    assert 2 <= len(runs) <= wrong + 1, "the draft is a poor choice for a test"
    for position in (0, 7, 20):
        tokens, literal = [*record.prompt_ids, *record.output_ids[:position]], []
        for _ in range(25):
            best, confidence, entropy = _said(model(torch.tensor([tokens])).logits[0, -1, :32].tolist())
            tokens.append(best)
            literal.append((confidence, entropy))
        assert _flat(_recorded(runs, position, 25)) == pytest.approx(_flat(literal), abs=1e-3)
