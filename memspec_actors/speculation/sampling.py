"""Turn logits into the distribution that is sampled from, and draw from it with noise tied to a token position."""

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.requests import SamplingParams

__all__ = ["Filters", "PositionNoise", "Stream", "choose", "diagnosis", "probabilities", "sampled"]

KEPT_VARIATES = 1 << 20  # of proposal noise, 8 MB: the longest draft's where a vocabulary has 25,000 ids
TINY = torch.finfo(torch.float32).tiny
MAX_TOP_K = 1 << 31  # TorchScript's integers end, and no vocabulary is as large


class Filters(NamedTuple):
    """What `SamplingParams` says of the distribution that is sampled from."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float

    @classmethod
    def of(cls, params: SamplingParams) -> "Filters":
        return cls(float(params.temperature), min(params.top_k, MAX_TOP_K), float(params.top_p), float(params.min_p))


def probabilities(logits: Tensor, params: SamplingParams) -> Tensor:
    """Return the float32 distribution that sampling uses: temperature, top-k, top-p and min-p applied in this order.

    ``logits`` is (V,) or (T, V); each row is treated alone and the result sums to 1 along V. Each filter sees the
    distribution that the one before left, renormalised. Tokens that tie with the last one kept are kept too, so the
    result does not depend on a sort's order. A logit of -inf is a masked token. Raises InvalidLogits for NaN, +inf or
    a row that is masked altogether, and ValueError for temperature 0, which has no use for a distribution.
    """
    if params.greedy:
        raise ValueError("temperature is 0: greedy decoding takes the argmax and has no distribution")
    filters = Filters.of(params)
    probs = _tempered(logits, filters)
    if _is_nan(probs):
        raise InvalidLogits(diagnosis(logits))
    return _truncated(probs, filters)


def sampled(logits: Tensor, filters: Filters, arrivals: Tensor) -> tuple[int, Tensor]:
    """Draw one of W ids from the logits (V,) of the first V; return it, and the distribution (W,) it was drawn from.

    ``arrivals`` (W,) are its position's. The id is -1 where `probabilities` raises. TorchScript as well as Python.
    """
    num_lacking = arrivals.size(0) - logits.size(0)
    if num_lacking > 0:
        logits = pad(logits, [0, num_lacking], value=float("-inf"))
    probs = _tempered(logits, filters)
    if _is_nan(probs):
        return -1, probs
    probs = _truncated(probs, filters)
    return choose(probs, arrivals), probs


class Stream(IntEnum):
    """Tell apart the random numbers of one token position by what they decide."""

    PROPOSE = 0  # which token is drawn there: by a draft, by the target alone, or by the target as the bonus
    ACCEPT = 1  # whether rejection sampling accepts the proposal
    RECOVER = 2  # which token replaces a rejected proposal


class PositionNoise:
    """Give every token position of one request its own random numbers, whoever asks and however often.

    Counter-based: Philox keyed by the seed, with (position, stream) as the counter (Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", 2011). So what a position sees depends neither on the draft that proposes it, nor on
    how often it was drafted, nor on other requests. (torch.Generator would have to be seeded anew for every position,
    and its CPU engine keeps only 32 bits of a seed.)

    Using the noise of a drafted and discarded position again is unbiased: whether it was discarded was decided by the
    noise of earlier positions alone, and so was the text before it; given that text its noise is as good as fresh.
    For rejection sampling this holds as long as the choice of draft and of draft length depends only on committed
    tokens and on what was drafted before the position; ``match`` needs no such condition, for its text is a function
    of the target's distribution and the noise alone.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=np.array([seed, 0], dtype=np.uint64))
        self._fresh = self._bits.state  # buffers empty: only the counter in it is changed
        self._generator = np.random.Generator(self._bits)
        self._kept: dict[tuple[int, int], Tensor] = {}

    def arrivals(self, position: int, width: int, stream: Stream = Stream.PROPOSE) -> Tensor:
        """Return (width,) float64 standard exponential variates; minus their logarithm is Gumbel noise.

        The variate of a token id does not depend on ``width``. The result is shared: do not change it.
        """
        if stream is not Stream.PROPOSE:
            return self._draw_arrivals(position, width, stream)
        kept = self._kept.get((position, width))
        if kept is None:
            kept = self._draw_arrivals(position, width, stream)
            if (len(self._kept) + 1) * width <= KEPT_VARIATES:  # verification begins with the first positions
                self._kept[position, width] = kept
        return kept

    def forget(self, position: int) -> None:
        """Let go of what is kept for verifying positions before this one."""
        for decided in [key for key in self._kept if key[0] < position]:
            del self._kept[decided]

    def uniform(self, position: int, stream: Stream = Stream.ACCEPT) -> float:
        """Return one variate in [0, 1)."""
        return float(self._at(position, stream).random())

    def _draw_arrivals(self, position: int, width: int, stream: Stream) -> Tensor:
        variates = self._at(position, stream).standard_exponential(width)
        variates += np.finfo(np.float64).tiny  # never 0: 0 / 0 would win every comparison
        return torch.from_numpy(variates)

    def _at(self, position: int, stream: Stream) -> np.random.Generator:
        # The lowest word counts blocks within one (position, stream).
        self._fresh["state"]["counter"] = np.array([0, position, int(stream), 0], dtype=np.uint64)
        self._bits.state = self._fresh
        return self._generator


def choose(weights: Tensor, arrivals: Tensor) -> int:
    """Draw an index with probability proportional to ``weights`` (V,), which need not sum to 1.

    The Gumbel-max trick without logarithms: argmax(log w - log e) = argmax(w / e). Two distributions drawn from with
    the same noise agree with probability at least (1 - d) / (1 + d), d their total variation distance.
    """
    return int((weights / arrivals.to(weights.device)).argmax())


def _tempered(logits: Tensor, filters: Filters, tiny: float = TINY) -> Tensor:
    """Apply temperature and top-k; a row that is no distribution becomes NaN."""
    logits = logits.float()
    # The maximum is taken off first, so that a temperature near 0 gives -inf and not NaN.
    centred = logits - logits.amax(dim=-1, keepdim=True)
    scaled = centred / (filters.temperature if filters.temperature > tiny else tiny)
    if filters.top_k != 0:
        scaled = scaled.masked_fill(scaled < _top_k_floor(scaled, filters.top_k), float("-inf"))
    return torch.softmax(scaled, dim=-1)


def _is_nan(probs: Tensor) -> bool:
    """Tell whether a row is NaN: a NaN logit, +inf and masking every token each make the whole of it so."""
    return math.isnan(float(probs[..., 0].sum()))


def _truncated(probs: Tensor, filters: Filters) -> Tensor:
    """Apply top-p and min-p."""
    if filters.top_p < 1.0:
        probs = _keep_from(probs, _top_p_floor(probs, filters.top_p))
    if filters.min_p > 0.0:
        probs = _keep_from(probs, filters.min_p * probs.amax(dim=-1, keepdim=True))
    return probs


def _top_k_floor(scaled: Tensor, k: int) -> Tensor:
    return scaled.topk(min(k, scaled.shape[-1]), dim=-1).values[..., -1:]  # (..., 1)


def _top_p_floor(probs: Tensor, top_p: float) -> Tensor:
    """Return the smallest probability among the fewest best tokens that reach ``top_p`` together; (..., 1)."""
    # All tokens below (1 - top_p) / V together weigh less than 1 - top_p: the ones sought are among the others. Sorting
    # those instead of a whole vocabulary is several times faster where the model is sure of itself.
    num_candidates = (probs >= (1.0 - top_p) / probs.shape[-1]).sum(dim=-1).amax()
    best = probs.topk(int(num_candidates), dim=-1).values
    before = best.cumsum(dim=-1) - best  # probability of all better tokens
    num_kept = (before < top_p).sum(dim=-1, keepdim=True).clamp_(min=1)  # a top_p near 0 is 0 in float32
    return best.gather(-1, num_kept - 1)


def _keep_from(probs: Tensor, floor: Tensor) -> Tensor:
    kept = probs.masked_fill(probs < floor, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def diagnosis(logits: Tensor) -> str:
    """Say of logits (V,) or (T, V), of which at least a row is no distribution, what is wrong with it."""
    best = logits.float().amax(dim=-1).flatten()
    row = int((~best.isfinite()).nonzero()[0])
    value = float(best[row])
    what = "every token is masked" if value == float("-inf") else f"the largest logit is {value}"
    return f"logits row {row}: {what}; check the checkpoint and its dtype (float16 overflows)"
