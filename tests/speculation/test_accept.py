"""Acceptance rules, law by law; `test_accept_distribution` checks the distributions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.errors import ConfigError, InvalidLogits, InvalidRequest
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import Draw, Exact, Match, Proposal, Rejection, Verdict
from memspec_actors.speculation.proposing import propose
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.sampling import PositionNoise, probabilities

GREEDY = SamplingParams()
WIDTH = 9
SAMPLING = (
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.6, top_k=5),
    SamplingParams(temperature=1.5, top_p=0.8, min_p=0.05),
)


def rows(num_rows: int, seed: int, width: int = WIDTH) -> torch.Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed)) * 2


@given(own=st.lists(st.integers(0, 3), min_size=1, max_size=7), data=st.data())
def test_exact_accepts_the_common_prefix_with_the_argmax(own: list[int], data: st.DataObject) -> None:
    """Greedy text would differ from the target's own."""
    proposed = data.draw(st.lists(st.integers(0, 3), min_size=len(own) - 1, max_size=len(own) - 1))
    logits = torch.nn.functional.one_hot(torch.tensor(own), 4).float()
    verdict = Exact().verify(Proposal(tuple(proposed)), logits, GREEDY, PositionNoise(0), 0)
    num_accepted = 0
    while num_accepted < len(proposed) and proposed[num_accepted] == own[num_accepted]:
        num_accepted += 1
    assert verdict == Verdict(num_accepted, own[num_accepted])


def test_exact_refuses_a_target_that_returns_no_numbers() -> None:
    """A target gone NaN would decode token 0 for ever."""
    logits = rows(3, 0)
    logits[2, 4] = math.nan
    with pytest.raises(InvalidLogits, match="nan"):
        Exact().verify(Proposal((0, 0)), logits, GREEDY, PositionNoise(0), 0)


def test_greedy_proposals_build_no_distribution() -> None:
    """Greedy decoding would pay a softmax over the vocabulary for every drafted token."""
    draw = propose(torch.tensor([0.0, math.nan, 2.0]), GREEDY, PositionNoise(0), 0, Exact())
    assert draw == Draw(1, None)  # a distribution of these logits would have raised
    assert propose(torch.tensor([0.0, 2.0, 1.0]), GREEDY, PositionNoise(0), 0, Exact(), width=8) == Draw(1, None)


def text_of(draft_seed: int | None, k: int, params: SamplingParams, num_tokens: int = 40) -> list[int]:
    """Decode with ``match`` from a target whose logits depend on position and previous token; None drafts nothing."""
    rule, noise = Match(), PositionNoise(77)
    target = rows(num_tokens * WIDTH * 2, 1).view(-1, WIDTH, WIDTH)
    text = [0]
    while len(text) < num_tokens:
        drafted: list[Draw] = []
        if draft_seed is not None:
            draft = target + rows(target.numel() // WIDTH, draft_seed).view_as(target) * 0.4
            for i in range(k):
                previous = drafted[-1].id if drafted else text[-1]
                row = draft[len(text) + i - 1, previous]
                drafted.append(propose(row, params, noise, len(text) + i, rule))
        proposal = Proposal.of(drafted)
        fed = [text[-1], *proposal.ids]
        logits = torch.stack([target[len(text) - 1 + i, token_id] for i, token_id in enumerate(fed)])
        verdict = rule.verify(proposal, logits, params, noise, len(text))
        text += [*proposal.ids[: verdict.num_accepted], verdict.next_id]
    return text[:num_tokens]


@pytest.mark.parametrize("params", SAMPLING)
def test_match_gives_the_same_text_under_every_draft_and_draft_length(params: SamplingParams) -> None:
    """A sampled text would change with the draft that happens to be resident."""
    alone = text_of(None, 0, params)
    assert len(set(alone)) > 3
    for draft_seed, k in ((2, 1), (2, 5), (3, 2), (4, 7)):
        assert text_of(draft_seed, k, params) == alone


@pytest.mark.parametrize("rule", [Match(), Rejection()])
@pytest.mark.parametrize("params", SAMPLING)
def test_a_draft_equal_to_the_target_is_always_accepted(rule: Match | Rejection, params: SamplingParams) -> None:
    """A perfect draft would be rejected: its noise or its distribution is not the one verified with."""
    noise = PositionNoise(3)
    for start in range(0, 400, 4):
        logits = rows(5, start)
        draws = [propose(logits[i], params, noise, start + i, rule) for i in range(4)]
        assert rule.verify(Proposal.of(draws), logits, params, noise, start).num_accepted == 4


@pytest.mark.parametrize("rule", [Match(), Rejection()])
def test_tokens_the_target_excludes_are_never_accepted_nor_emitted(rule: Match | Rejection) -> None:
    """A token outside top-k could come through from a draft."""
    params = SamplingParams(temperature=1.0, top_k=2)
    noise = PositionNoise(3)
    for start in range(200):
        logits = rows(2, start)
        allowed = set(logits[0].topk(2).indices.tolist())
        outside = next(token_id for token_id in range(WIDTH) if token_id not in allowed)
        probs = torch.nn.functional.one_hot(torch.tensor([outside]), WIDTH).float()
        verdict = rule.verify(Proposal((outside,), probs), logits, params, noise, start)
        assert verdict.num_accepted == 0
        assert verdict.next_id in allowed


def test_a_rejected_certain_proposal_is_not_drawn_again() -> None:
    """With a one-hot proposal the residual leaves the rejected token out."""
    noise, params, likely = PositionNoise(8), SamplingParams(temperature=3.0), int(rows(2, 5)[0].argmax())
    verdicts = [Rejection().verify(Proposal((likely,)), rows(2, 5), params, noise, position) for position in range(200)]
    rejected = [verdict for verdict in verdicts if verdict.num_accepted == 0]
    assert 0 < len(rejected) < 200
    assert all(verdict.next_id != likely for verdict in rejected)


def test_a_residual_of_nothing_falls_back_to_the_target() -> None:
    """Distributions that differ by rounding only could leave nothing to draw from, and token 0 would be emitted."""
    noise, params, logits = PositionNoise(8), SamplingParams(temperature=3.0), rows(2, 5)
    above = probabilities(logits[0], params)[None] * 4.0  # q above p everywhere: max(p - q, 0) is 0
    verdicts = [Rejection().verify(Proposal((2,), above), logits, params, noise, position) for position in range(200)]
    assert len({verdict.next_id for verdict in verdicts if verdict.num_accepted == 0}) > 4


@pytest.mark.parametrize("rule", [Match(), Rejection()])
def test_a_draft_with_fewer_ids_proposes_on_the_targets_support(rule: Match | Rejection) -> None:
    """Drafts with a narrower vocabulary would fail, or not share the target's noise."""
    params, noise = SamplingParams(temperature=1.0), PositionNoise(5)
    for start in range(0, 300, 3):
        target = rows(4, start)
        target[:, 6:] = -math.inf  # the ids that the draft lacks
        draws = [propose(target[i, :6], params, noise, start + i, rule, WIDTH) for i in range(3)]
        assert all(draw.probs is None or draw.probs.shape == (WIDTH,) for draw in draws)
        assert rule.verify(Proposal.of(draws), target, params, noise, start).num_accepted == 3


def test_sampling_raises_for_a_draft_or_target_gone_nan() -> None:
    """NaN would be sampled from as if it were a distribution."""
    params, noise = SamplingParams(temperature=1.0), PositionNoise(0)
    nan = torch.full((2, WIDTH), math.nan)
    with pytest.raises(InvalidLogits):
        propose(nan[0], params, noise, 0, Match())
    for rule in (Match(), Rejection()):
        with pytest.raises(InvalidLogits):
            rule.verify(Proposal((1,)), nan, params, noise, 0)


@pytest.mark.parametrize(
    ("name", "greedy", "expected"),
    [
        ("auto", True, Exact),
        ("auto", False, Match),
        ("exact", True, Exact),
        ("match", True, Exact),
        ("rejection", True, Exact),
        ("match", False, Match),
        ("rejection", False, Rejection),
    ],
)
def test_a_name_and_greediness_choose_the_rule(name: str, greedy: bool, expected: type) -> None:
    """A request would be verified by another rule than it asked for."""
    rule = acceptance_rule(name, greedy=greedy)
    assert type(rule) is expected
    assert rule.lossless
    assert rule.needs_draft_probs == (expected is Rejection)


def test_exact_is_refused_when_sampling() -> None:
    """`exact` would silently ignore the temperature."""
    with pytest.raises(InvalidRequest, match=r"temperature 0.*'match'"):
        acceptance_rule("exact", greedy=False)


def test_an_unknown_rule_is_refused_with_the_nearest() -> None:
    """A misspelt rule would run as another one."""
    with pytest.raises(ConfigError, match=r"'rejektion'.*auto, exact, match, rejection.*did you mean 'rejection'"):
        acceptance_rule("rejektion", greedy=True)


@settings(derandomize=True, max_examples=10)
@given(st.integers(0, 2**32))
def test_coupled_proposals_match_about_as_often_as_can_be(seed: int) -> None:
    """Gumbel coupling agrees with probability >= (1 - d) / (1 + d); a draft with its own noise would not."""
    params, noise = SamplingParams(temperature=1.0), PositionNoise(seed)
    target, draft = rows(1, seed)[0], rows(1, seed)[0] + rows(1, seed + 1)[0] * 0.5
    distance = float((target.softmax(-1) - draft.softmax(-1)).abs().sum() / 2)
    num_trials, num_matches = 200, 0
    for position in range(num_trials):
        drawn = propose(draft, params, noise, position, Match())
        logits = torch.stack([target, target])
        num_matches += Match().verify(Proposal.of([drawn]), logits, params, noise, position).num_accepted
    bound = (1 - distance) / (1 + distance)
    slack = 5.5 * math.sqrt(bound * (1 - bound) / num_trials) + 1 / num_trials  # false alarm below 1e-7
    assert num_matches / num_trials >= bound - slack
