"""Lossy rules against plain loops; if wrong, text departs from the target's where nobody asked for it."""

import math

import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from memspec_actors.errors import ConfigError
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import Proposal
from memspec_actors.speculation.lossy import Bayes
from memspec_actors.speculation.odds import OddsEstimator
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.sampling import PositionNoise

WIDTH, COMMON = 9, 7


def rows(num: int, seed: int, width: int = WIDTH) -> torch.Tensor:
    return torch.randn(num, width, generator=torch.Generator().manual_seed(seed)) * 1.5


@settings(max_examples=80)
@given(
    st.integers(0, 5000), st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0), st.sampled_from(["fsd", "bild", "typical"])
)
def test_rules_tolerate_what_their_measure_allows(seed: int, temperature: float, threshold: float, kind: str) -> None:
    """The draft knows fewer ids than the target: distances are taken over those that both know."""
    params, noise, k = SamplingParams(temperature=temperature), PositionNoise(seed), 4
    logits = rows(k + 1, seed)
    q = (logits[:k, :COMMON] + rows(k, seed + 1, COMMON) * 0.7).softmax(-1)
    q = torch.nn.functional.pad(q, (0, WIDTH - COMMON)) if temperature else q
    drafted = tuple(int(row.argmax()) for row in q)
    p = logits.softmax(-1).double().numpy()
    own = [
        int(row.argmax()) if not temperature else int((row / noise.arrivals(10 + i, WIDTH).numpy()).argmax())
        for i, row in enumerate(p)
    ]
    expected, departures = k, []
    for i in range(k):
        if drafted[i] == own[i]:
            continue
        divergence = jensenshannon(p[i, :COMMON], q[i, :COMMON].double().numpy(), base=2) ** 2
        surprisal = -math.log(p[i, drafted[i]])
        measured, limit = {
            "fsd": (divergence, threshold),
            "bild": (surprisal, threshold),
            "typical": (surprisal, scipy.stats.entropy(p[i])),
        }[kind]
        if measured > limit:
            expected = i
            break
        departures.append(i)
    name = kind if kind == "typical" else f"{kind}:{threshold:.9f}"
    rule = acceptance_rule(name, greedy=not temperature)
    proposal = Proposal(drafted, q if rule.needs_draft_probs else None, COMMON)
    verdict = rule.verify(proposal, logits, params, noise, 10)
    assert (verdict.num_accepted, verdict.next_id) == (expected, own[expected])
    assert verdict.departures == tuple(departures)
    assert not rule.lossless


def test_bayes_accepts_only_matches_before_anything_was_learned() -> None:
    """A first mismatch would stand for no reason."""
    rule = Bayes("bayes")
    logits = rows(3, 1)
    wrong = int(logits[1].argmin())
    drafted = (int(logits[0].argmax()), wrong)
    probs = torch.full((2, WIDTH), 1 / WIDTH)
    verdict = rule.verify(Proposal(drafted, probs), logits, SamplingParams(), PositionNoise(0), 0)
    assert (verdict.num_accepted, verdict.departures, len(verdict.distances)) == (1, (), 2)


@pytest.mark.parametrize(("temperature", "seed"), [(0.0, 0), *((1.0, seed) for seed in range(8))])
def test_a_draft_gone_nan_is_never_tolerated(temperature: float, seed: int) -> None:
    """A distance that is no number would compare as accepted, and garbage would become the text."""
    rule, odds = Bayes("bayes"), OddsEstimator()
    for distance in (0.1, 0.2, 0.5, 0.6, 0.9):
        odds.add(distance, accepted=distance not in (0.2, 0.6))
    rule.odds = odds.snapshot()
    logits = rows(2, 3)
    wrong = int(logits[0].argmin())
    proposal = Proposal((wrong,), torch.full((1, WIDTH), math.nan))
    verdict = rule.verify(proposal, logits, SamplingParams(temperature=temperature), PositionNoise(seed), 0)
    assert verdict.num_accepted == 0


@pytest.mark.parametrize("name", ["fsd", "fsd:", "fsd:x", "fsd:-1", "fsd:1.1", "bild:nan", "bild:1e400", "bild:"])
def test_a_threshold_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"accept is '{name}'; write (fsd|bild):THRESHOLD"):
        acceptance_rule(name, greedy=True)


@pytest.mark.parametrize(("name", "near"), [("bays", "bayes"), ("bayes:1", "bayes"), ("fds:0.2", "fsd")])
def test_a_misspelt_lossy_rule_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{name}'; known rules: .*did you mean '{near}'"):
        acceptance_rule(name, greedy=True)


def test_typical_tolerates_nothing_where_the_target_is_sure_and_half_of_what_it_is_torn_between() -> None:
    """A wrong token would pass where only one is right."""
    rule, noise = acceptance_rule("typical", greedy=True), PositionNoise(0)
    sure = torch.tensor([0.99, 0.004, 0.003, 0.003]).log()
    torn = torch.tensor([0.3, 0.28, 0.22, 0.2]).log()
    for logits, drafted, accepted in ((sure, 1, 0), (torn, 1, 1), (torn, 3, 0)):
        verdict = rule.verify(Proposal((drafted,)), torch.stack([logits, sure]), SamplingParams(), noise, 0)
        assert verdict.num_accepted == accepted
