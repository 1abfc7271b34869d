"""What a request may ask beside plain sampling: it must come out as without speculation, whatever the drafts do."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.errors import InvalidRequest
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyRunner, ToyText
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule

PROMPT = (3, 1, 4, 1, 5)
END = 2


def decode(
    sampling: SamplingParams,
    rates: list[float],
    *,
    k: int = 4,
    num: int = 40,
    seed: int = 1,
    outcomes: list[StepOutcome] | None = None,
    gap_ids: tuple[int, ...] = (),
) -> DecodeSession:
    """Decode with toy drafts of these error rates in turn; no rate, no draft. ``outcomes`` gathers the iterations'."""
    target = ToyRunner(seed=seed)
    request = GenerationRequest(
        request_id="r", prompt_ids=PROMPT, max_new_tokens=num, sampling=sampling, seed=5, policy="static:a",
        stop_rule=f"fixed:{k}", accept="auto", lossless=True,
    )  # fmt: skip
    session = DecodeSession(
        target=target,
        request=request,
        num_ids=target.vocab_size,
        gap_ids=gap_ids,
        accept=acceptance_rule("auto", greedy=sampling.greedy),
        stop_rule=stop_rule(request.stop_rule),
        state=CommitState(
            ToyText(), end_ids=frozenset({END}), stop=sampling.stop, include_stop=False, max_new_tokens=num,
            context_left=1000, min_tokens=sampling.min_tokens,
        ),
    )  # fmt: skip
    drafts = [
        BoundDraft(ResidentDraft(f"d{i}", 1), ToyRunner(seed=seed, error_rate=rate, error_seed=i), target.vocab_size)
        for i, rate in enumerate(rates)
    ]
    outcome, turn = session.prefill(), 0
    while outcome.commit.finish_reason is None:
        outcome = session.step(drafts[turn % len(drafts)] if drafts else None)
        turn += 1
        if outcomes is not None:
            outcomes.append(outcome)
    return session


OPTIONS: list[dict[str, Any]] = [
    {"presence_penalty": 1.5, "frequency_penalty": 0.5},
    {"repetition_penalty": 1.4},
    {"logit_bias": {3: 2.0, 7: -100.0}},
    {"min_tokens": 25},
    {"min_tokens": 20, "repetition_penalty": 1.2, "frequency_penalty": -0.5, "logit_bias": {END: 5.0}},
]


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 50),
    temperature=st.sampled_from([0.0, 1.3]),
    rates=st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=1, max_size=3),
    k=st.integers(1, 6),
)
def test_adjusted_text_is_the_same_with_any_drafts_and_with_none(
    options: Mapping[str, Any], seed: int, temperature: float, rates: list[float], k: int
) -> None:
    """A penalty would count a rejected token, or miss an accepted one in the middle of a block."""
    sampling = SamplingParams(temperature=temperature, **options)
    plain, drafted = decode(sampling, [], seed=seed), decode(sampling, rates, k=k, seed=seed)
    assert drafted.state.token_ids == plain.state.token_ids
    assert END not in plain.state.token_ids[: sampling.min_tokens]


def test_a_draft_that_is_the_target_stays_always_right_under_adjustments() -> None:
    """The draft would be adjusted otherwise than the target: the same text, but slower."""
    sampling = SamplingParams(presence_penalty=1.5, repetition_penalty=1.3, logit_bias={4: 1.0}, min_tokens=36)
    outcomes: list[StepOutcome] = []
    decode(sampling, [0.0], k=4, outcomes=outcomes)
    whole = [outcome for outcome in outcomes if outcome.commit.finish_reason is None]
    assert len(whole) >= 6
    assert all(outcome.accepted == outcome.drafted == 4 for outcome in whole)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_logprobs_are_the_targets_for_accepted_recovered_and_bonus_tokens(temperature: float) -> None:
    """Every token's row must be its own: one off, and accepted tokens carry their neighbours' figures."""
    sampling = SamplingParams(temperature=temperature, logprobs=3, presence_penalty=0.7, min_tokens=20)
    session = decode(sampling, [0.0, 0.5, 1.0], k=5)
    tokens: list[int] = list(PROMPT)
    target = ToyRunner(seed=1)
    assert len(session.logprobs) == len(session.state.token_ids) > 10
    for token_id, told in zip(session.state.token_ids, session.logprobs, strict=True):
        expected = torch.log_softmax(target.logits(tokens), dim=-1)
        assert told.token_id == token_id
        assert told.logprob == pytest.approx(float(expected[token_id]), abs=1e-5)
        best = sorted(range(len(expected)), key=lambda each: -float(expected[each]))[:3]
        assert [each for each, _ in told.top] == best
        assert [value for _, value in told.top] == pytest.approx([float(expected[each]) for each in best], abs=1e-5)
        tokens.append(token_id)


def test_stop_strings_wait_for_the_minimum_length() -> None:
    """vLLM's meaning: what stands in the first ``min_tokens`` tokens ends nothing."""
    free = decode(SamplingParams(ignore_eos=True), [])
    stop = f"{free.state.token_ids[3]} "
    early = decode(SamplingParams(stop=(stop,)), [0.5])
    assert len(early.state.token_ids) <= 4
    late = decode(SamplingParams(stop=(stop,), min_tokens=10), [0.5])
    assert len(late.state.token_ids) > 10


def test_a_minimum_beyond_the_maximum_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="min_tokens is 50 and max_new_tokens is 40"):
        decode(SamplingParams(min_tokens=50), [])


def test_a_minimum_beyond_the_context_is_refused() -> None:
    """The text would end before it, and nobody would be told."""
    with pytest.raises(InvalidRequest, match="min_tokens is 4 and the prompt leaves 3 tokens"):
        CommitState(
            ToyText(), end_ids=frozenset(), stop=(), include_stop=False, max_new_tokens=9, context_left=3, min_tokens=4
        )


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("rates", [[], [0.0], [0.6]])
def test_ids_that_no_token_has_are_never_emitted(temperature: float, rates: list[float]) -> None:
    """Else a text would have tokens that are nothing, and that no tokenizer gives back."""
    sampling = SamplingParams(temperature=temperature, seed=3)
    gaps = tuple(sorted(set(decode(sampling, []).generated)))[:6]
    session = decode(sampling, rates, gap_ids=gaps)
    assert not set(session.generated) & set(gaps)
    assert session.generated == decode(sampling, [], gap_ids=gaps).generated
