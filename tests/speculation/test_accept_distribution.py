"""Sampled text has the target's own distribution: chi-square over whole three-token texts.

A joint test of texts covers the first token's marginal, every conditional, and the noise of positions that were
drafted, discarded and drafted again. Chance of a false alarm: below 1e-8 for each check.
"""

from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import (
    AcceptanceRule,
    Draw,
    Match,
    Proposal,
    Rejection,
    Verdict,
)
from memspec_actors.speculation.proposing import propose
from memspec_actors.speculation.sampling import PositionNoise, Stream, choose, probabilities

FALSE_ALARM = 1e-8
WIDTH = 4
LENGTH = 3
NUM_TEXTS = 1000
START = 0  # the token before the text

Array = NDArray[np.float64]

TARGET = torch.tensor(
    [[1.2, 0.3, -0.5, 0.9], [0.0, 1.5, 0.4, -1.0], [0.7, 0.6, 0.5, 0.4], [-2.0, 0.2, 1.1, 1.0]], dtype=torch.float32
)  # (previous token, next token)
DRAFTS = {
    "right": TARGET,
    "wrong": -2 * TARGET,
    "misleading": TARGET + torch.tensor([0.0, 1.5, -8.0, 0.0]),  # likes one token too much, another not at all
    "random": torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(4)),
}
PARAMS = {
    "plain": SamplingParams(temperature=1.0),
    "cool, top-k": SamplingParams(temperature=0.6, top_k=3),
    "hot, top-p, min-p": SamplingParams(temperature=1.7, top_p=0.85, min_p=0.1),
}


def own_distribution(logits: Array, params: SamplingParams) -> Array:
    """Return one row's distribution by a plain loop over tokens, best first."""
    probs: Array = np.exp(logits / params.temperature)
    probs /= probs.sum()
    order = np.argsort(-probs)
    if params.top_k:
        probs[order[params.top_k :]] = 0.0
        probs /= probs.sum()
    reached = 0.0
    for token_id in order:
        mass = probs[token_id]
        if reached >= params.top_p:
            probs[token_id] = 0.0
        reached += mass
    probs[probs < params.min_p * probs.max()] = 0.0
    probs /= probs.sum()
    return probs


def text_probabilities(params: SamplingParams) -> dict[tuple[int, ...], float]:
    rows = [own_distribution(row, params) for row in TARGET.double().numpy()]
    texts: dict[tuple[int, ...], float] = {}
    for text in product(range(WIDTH), repeat=LENGTH):
        texts[text] = float(np.prod([rows[a][b] for a, b in zip((START, *text), text, strict=False)]))
    return texts


def decode(
    rule: AcceptanceRule, draft: Tensor | None, k: int, params: SamplingParams, noise: PositionNoise, place: int
) -> tuple[int, ...]:
    """Decode one text in iterations of draft and verify; ``draft`` None lets the target decode alone.

    Each ``place`` has positions of its own, hence its own noise.
    """
    text = [START]
    first = place * (LENGTH + k + 1)
    while len(text) <= LENGTH:
        draws: list[Draw] = []
        for i in range(k if draft is not None else 0):
            assert draft is not None
            previous = draws[-1].id if draws else text[-1]
            draws.append(propose(draft[previous], params, noise, first + len(text) + i, rule))
        proposal = Proposal.of(draws)
        verdict = rule.verify(proposal, TARGET[[text[-1], *proposal.ids]], params, noise, first + len(text))
        text += [*proposal.ids[: verdict.num_accepted], verdict.next_id]
    return tuple(text[1 : LENGTH + 1])


def fit(texts: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Return the p-value of the texts under the expected distribution; rare texts share one cell."""
    assert all(expected[text] > 0 for text in texts), "a text that the target never writes"
    common = [text for text, prob in expected.items() if prob * len(texts) >= 5]
    observed = [texts.count(text) for text in common]
    wanted = [expected[text] * len(texts) for text in common]
    rest = len(texts) - sum(wanted)
    if rest > 1e-6 * len(texts):
        observed.append(len(texts) - sum(observed))
        wanted.append(rest)
    return float(stats.chisquare(observed, wanted, sum_check=False).pvalue)


def p_value(
    rule: AcceptanceRule, draft: Tensor | None, k: int, params: SamplingParams, num_texts: int = NUM_TEXTS
) -> float:
    noise = PositionNoise(20)
    with torch.inference_mode():
        texts = [decode(rule, draft, k, params, noise, place) for place in range(num_texts)]
    return fit(texts, text_probabilities(params))


@pytest.mark.parametrize(
    ("draft", "params"),
    [
        ("right", "plain"),
        ("wrong", "plain"),
        ("misleading", "plain"),
        ("random", "cool, top-k"),
        ("wrong", "hot, top-p, min-p"),
    ],
)
def test_rejection_texts_follow_the_target(draft: str, params: str) -> None:
    """Speculative sampling would change what the model says."""
    assert p_value(Rejection(), DRAFTS[draft], 2, PARAMS[params]) > FALSE_ALARM


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_match_texts_follow_the_target(params: SamplingParams) -> None:
    """Coupled sampling would change what the model says; the draft cannot matter (see test_accept)."""
    assert p_value(Match(), None, 0, params) > FALSE_ALARM


def test_match_texts_follow_the_target_beside_a_bad_draft() -> None:
    """Sharing the noise with a draft would bias the text."""
    assert p_value(Match(), DRAFTS["wrong"], 3, PARAMS["plain"]) > FALSE_ALARM


def test_rejection_of_certain_proposals_follows_the_target() -> None:
    """A deterministic proposal (prompt look-up) would bias the text."""
    params, noise = PARAMS["plain"], PositionNoise(6)
    row = own_distribution(TARGET[START].double().numpy(), params)
    for proposed in range(WIDTH):
        proposal, logits = Proposal((proposed,)), TARGET[[START, proposed]]
        verdicts = [Rejection().verify(proposal, logits, params, noise, 2 * place) for place in range(NUM_TEXTS)]
        emitted = [proposed if verdict.num_accepted else verdict.next_id for verdict in verdicts]
        assert stats.chisquare(np.bincount(emitted, minlength=WIDTH), row * NUM_TEXTS).pvalue > FALSE_ALARM


class RecoversFromTarget(Rejection):
    """Wrong: after a rejection p itself is drawn from, not the residual."""

    def _recover(self, p: Tensor, q: Tensor, noise: PositionNoise, position: int) -> int:
        return choose(p, noise.arrivals(position, p.shape[-1], Stream.RECOVER))


class RecoversWithSpentNoise(Rejection):
    """Wrong: the noise that drew the rejected proposal draws its replacement."""

    def _recover(self, p: Tensor, q: Tensor, noise: PositionNoise, position: int) -> int:
        return choose((p - q).clamp_min(0), noise.arrivals(position, p.shape[-1], Stream.PROPOSE))


class AcceptsUnfiltered(Rejection):
    """Wrong: the proposal was drawn after the filters and is verified against the draft's distribution before them."""

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        flat = probabilities(target_logits[:-1], SamplingParams(temperature=3.0))
        return super().verify(Proposal(proposal.ids, flat), target_logits, params, noise, position)


class AcceptsTwice(Match):
    """Wrong: the second token of a draft is accepted with the noise of the first."""

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        return super().verify(proposal, target_logits, params, noise, position // 2 * 2)


@pytest.mark.parametrize(
    ("rule", "draft", "num_texts"),
    [
        (RecoversFromTarget(), "random", 600),
        (RecoversWithSpentNoise(), "misleading", 3000),
        (AcceptsUnfiltered(), "random", 600),
        (AcceptsTwice(), "random", 600),
    ],
)
def test_the_check_catches_a_wrong_rule(rule: AcceptanceRule, draft: str, num_texts: int) -> None:
    """The checks above would pass whatever the rules did."""
    assert p_value(rule, DRAFTS[draft], 2, PARAMS["plain"], num_texts) < FALSE_ALARM
