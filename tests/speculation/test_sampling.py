"""Sampling: the filtered distribution is the one transformers samples from, and noise belongs to a position alone."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.sampling import PositionNoise, Stream, choose, probabilities
from memspec_actors.speculation.stop import stop_rule

FALSE_ALARM = 1e-8


def transformers_probabilities(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    warpers = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1.0:
        warpers.append(TopPLogitsWarper(params.top_p))
    if params.min_p > 0.0:
        warpers.append(MinPLogitsWarper(params.min_p))
    no_ids = torch.LongTensor(logits.shape[0], 0)
    return torch.as_tensor(warpers(no_ids, torch.FloatTensor(logits))).softmax(dim=-1)


@settings(derandomize=True, max_examples=100)
@given(
    seed=st.integers(0, 2**32),
    width=st.integers(1, 60),
    spread=st.floats(0.1, 12.0),
    temperature=st.floats(0.05, 4.0),
    top_k=st.integers(0, 70),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
)
def test_filters_agree_with_transformers(
    seed: int, width: int, spread: float, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    """Sampled text would follow another distribution than the same settings give in transformers."""
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    logits = torch.randn(3, width, generator=torch.Generator().manual_seed(seed)) * spread
    torch.testing.assert_close(probabilities(logits, params), transformers_probabilities(logits, params))


def test_a_top_p_too_small_for_float32_keeps_the_likeliest_token() -> None:
    """A request with such a filter, which is in range, would bring the Decoder down."""
    params = SamplingParams(temperature=5e-324, top_k=10**20, top_p=1e-300, min_p=1.0)
    assert probabilities(torch.tensor([[1.0, 3.0, 2.0]]), params).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("params", [{}, {"top_k": 7}, {"top_p": 0.8}, {"top_k": 30, "top_p": 0.6, "min_p": 0.02}])
def test_a_row_alone_equals_the_row_in_a_block_and_sums_to_one(params: dict[str, float]) -> None:
    """A token's distribution would depend on how many tokens were drafted around it."""
    sampling = SamplingParams(temperature=0.7, **params)  # type: ignore[arg-type]
    # bfloat16 rounds many logits to the same number, so the filters meet ties.
    logits = torch.randn(6, 500, generator=torch.Generator().manual_seed(0)).bfloat16()
    block = probabilities(logits, sampling)
    assert block.dtype == torch.float32
    torch.testing.assert_close(block.sum(-1), torch.ones(6))
    for row, alone in zip(block, logits, strict=True):
        assert torch.equal(row, probabilities(alone, sampling))


def test_tokens_tied_at_a_filters_edge_are_treated_alike() -> None:
    """Which of two equal tokens survives would depend on a sort's order."""
    logits = torch.tensor([1.0, 3.0, 1.0, 0.0])
    for params in (SamplingParams(temperature=1.0, top_k=2), SamplingParams(temperature=1.0, top_p=0.8)):
        probs = probabilities(logits, params)
        assert probs[0] == probs[2] > 0
        assert probs[3] == 0


@pytest.mark.parametrize("temperature", [1e-30, 1e-45, 1e-300])
def test_a_temperature_near_zero_is_nearly_greedy(temperature: float) -> None:
    """A tiny temperature would overflow and fail the request, or sample a wrong token."""
    probs = probabilities(torch.tensor([-4.0, 80.0, 79.0, 1e30]), SamplingParams(temperature=temperature))
    assert probs.tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused_with_their_row(bad: float) -> None:
    """A damaged checkpoint would produce arbitrary text without a word."""
    logits = torch.zeros(3, 5)
    logits[1, 2] = bad
    with pytest.raises(InvalidLogits, match="row 1"):
        probabilities(logits, SamplingParams(temperature=1.0))


def test_masked_tokens_are_allowed_but_not_a_row_without_any_token() -> None:
    """Masking ids beyond the vocabulary would fail, or a row without a choice would pass."""
    logits = torch.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])
    assert probabilities(logits[:1], SamplingParams(temperature=1.0)).tolist() == [[1.0, 0.0]]
    with pytest.raises(InvalidLogits, match="row 1: every token is masked"):
        probabilities(logits, SamplingParams(temperature=1.0))


def test_temperature_zero_has_no_distribution() -> None:
    """Greedy decoding would pay for distributions that nothing uses."""
    with pytest.raises(ValueError, match="greedy"):
        probabilities(torch.zeros(3), SamplingParams())


def test_noise_of_a_position_does_not_depend_on_what_was_asked_before() -> None:
    """The text of a request would depend on how often its positions were drafted."""
    first, second = PositionNoise(5), PositionNoise(5)
    for position in (9, 3, 3, 900, 4):
        second.uniform(position)
        second.arrivals(position, 11)
        second.arrivals(position, 11, Stream.RECOVER)
    for position in (3, 4, 900):
        for stream in Stream:
            assert torch.equal(first.arrivals(position, 11, stream), second.arrivals(position, 11, stream))
            assert first.uniform(position, stream) == second.uniform(position, stream)


def test_noise_survives_more_positions_than_are_kept() -> None:
    """A request that decodes on for long would see other noise than one that starts at the same place."""
    noise = PositionNoise(1)
    early = [noise.arrivals(position, 5).clone() for position in range(200)]
    assert all(torch.equal(early[position], noise.arrivals(position, 5)) for position in range(200))
    assert all(torch.equal(early[position], PositionNoise(1).arrivals(position, 5)) for position in (0, 50, 199))


def test_noise_of_the_longest_draft_is_kept_until_it_is_verified() -> None:
    """Verification would make it all anew, which takes about as long as to draft."""
    noise, num_rows = PositionNoise(1), stop_rule("gain").max_tokens + 1
    rows = [noise.arrivals(position, 5) for position in range(num_rows)]
    assert all(noise.arrivals(position, 5) is row for position, row in enumerate(rows))


def test_noise_that_is_kept_is_bounded_and_that_of_the_first_positions() -> None:
    """Half a hundred positions of a large vocabulary would take 50 MB that no memory plan knows of."""
    noise, width = PositionNoise(1), 150_000
    tracemalloc.start()
    first = [noise.arrivals(position, width) for position in range(3)]
    for position in range(3, 41):
        noise.arrivals(position, width)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept <= 8.5e6 and peak <= 10e6
    assert all(noise.arrivals(position, width) is row for position, row in enumerate(first))
    noise.forget(40)
    assert noise.arrivals(40, width) is noise.arrivals(40, width)  # there is room again
    assert torch.equal(noise.arrivals(1, width), first[1])


def test_noise_of_an_id_does_not_depend_on_the_width() -> None:
    """A draft with fewer ids than the target would not share its noise."""
    noise = PositionNoise(2)
    assert torch.equal(noise.arrivals(3, 700)[:40], noise.arrivals(3, 40))


def test_seeds_use_all_their_bits() -> None:
    """Seeds that differ only in their upper half would give the same text."""
    seeds = [1, 1 + 2**32, 1 + 2**62, 2**63 - 1]
    rows = {tuple(PositionNoise(seed).arrivals(0, 4).tolist()) for seed in seeds}
    assert len(rows) == len(seeds)


def test_noise_has_the_law_it_claims() -> None:
    """Every sampled distribution would be off."""
    noise = PositionNoise(7)
    arrivals = np.concatenate([noise.arrivals(position, 20).numpy() for position in range(300)])
    assert stats.kstest(arrivals, "expon").pvalue > FALSE_ALARM
    assert stats.kstest(-np.log(arrivals), "gumbel_r").pvalue > FALSE_ALARM
    uniform = [noise.uniform(position) for position in range(3000)]
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM


def _independence(left: list[int], right: list[int], width: int) -> float:
    table = np.zeros((width, width))
    np.add.at(table, (left, right), 1)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    return float(stats.chisquare(table.ravel(), expected.ravel(), ddof=2 * (width - 1)).pvalue)


def test_noise_is_independent_across_seeds_positions_and_streams() -> None:
    """Two requests, two positions or two decisions of one position would be correlated, and the text biased."""
    weights = torch.tensor([0.2, 0.3, 0.5])

    def draws(seed: int, positions: range, stream: Stream = Stream.PROPOSE) -> list[int]:
        noise = PositionNoise(seed)
        return [choose(weights, noise.arrivals(position, 3, stream)) for position in positions]

    base = draws(0, range(2000))
    others = [draws(1, range(2000)), draws(2**32, range(2000)), draws(0, range(1, 2001))]
    others += [draws(0, range(2000), Stream.RECOVER), draws(0, range(2000), Stream.ACCEPT)]
    for other in others:
        assert _independence(base, other, 3) > FALSE_ALARM
    assert _independence(base, draws(0, range(2000)), 3) < FALSE_ALARM  # the check sees dependence where there is some


def test_choose_follows_unnormalised_weights_and_never_takes_a_zero() -> None:
    """A filtered token could be emitted, or the residual of rejection sampling be drawn from wrongly."""
    weights = torch.tensor([3.0, 0.0, 1.0, 6.0])
    noise = PositionNoise(11)
    counts = np.bincount([choose(weights, noise.arrivals(position, 4)) for position in range(4000)], minlength=4)
    assert counts[1] == 0
    expected = weights.numpy()[[0, 2, 3]] / 10 * 4000
    assert stats.chisquare(counts[[0, 2, 3]], expected).pvalue > FALSE_ALARM


def test_choose_is_gumbel_max() -> None:
    """Two ways to say the same draw would disagree."""
    noise = PositionNoise(4)
    probs = torch.softmax(torch.randn(50, generator=torch.Generator().manual_seed(1)), -1)
    for position in range(50):
        arrivals = noise.arrivals(position, 50)
        assert choose(probs, arrivals) == int((probs.log() - arrivals.log()).argmax())
