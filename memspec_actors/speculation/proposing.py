"""Draw a draft's tokens from its logits."""

from typing import NamedTuple

import torch
from torch import Tensor

from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import AcceptanceRule, Draw
from memspec_actors.speculation.sampling import Filters, PositionNoise, diagnosis, sampled

__all__ = ["LIKELIEST", "Drawing", "drawn", "propose"]


class Drawing(NamedTuple):
    """Say how to draw tokens for positions that follow each other.

    With ``filters`` each is sampled with the ``arrivals`` (W,) of its position, W the target's number of ids; without
    it is the likeliest. ``keeps_probs`` asks for the distributions that the tokens were drawn from, too.
    """

    filters: Filters | None
    arrivals: list[Tensor]
    keeps_probs: bool


LIKELIEST = Drawing(None, [], keeps_probs=False)


def propose(
    logits: Tensor,
    params: SamplingParams,
    noise: PositionNoise,
    position: int,
    rule: AcceptanceRule,
    width: int | None = None,
    *,
    keep_probs: bool = False,
) -> Draw:
    """Draw the draft's token for ``position`` from its logits (V,); greedy costs one argmax.

    ``width`` is the target's number of ids: ids that the draft lacks get probability 0, so that both distributions
    have one support and both models share the noise. The distribution comes back with the token if ``rule`` needs it
    or ``keep_probs`` says so; greedy it is the softmax of ``logits``, not widened. Greedy does not look for NaN:
    whatever its argmax, verification rejects it. Raises InvalidLogits when sampling from NaN.
    """
    keep_probs = keep_probs or rule.needs_draft_probs
    if params.greedy:
        return Draw(*drawn(logits, None, None, keep_probs))
    arrivals = noise.arrivals(position, max(width or 0, logits.shape[-1]))
    token_id, probs = drawn(logits, Filters.of(params), arrivals, keep_probs)
    if token_id < 0:
        raise InvalidLogits(diagnosis(logits))
    return Draw(token_id, probs)


def drawn(
    logits: Tensor, filters: Filters | None, arrivals: Tensor | None, keep_probs: bool
) -> tuple[int, Tensor | None]:
    """Do as `propose` says, but return -1 instead of raising; TorchScript as well as Python."""
    if filters is None or arrivals is None:
        return int(logits.argmax()), torch.softmax(logits.float(), dim=-1) if keep_probs else None
    token_id, probs = sampled(logits, filters, arrivals)
    return token_id, probs if keep_probs else None
