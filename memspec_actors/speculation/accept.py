"""Decide, from the target's logits, how many of the tokens that a draft proposes stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from memspec_actors.errors import InvalidLogits
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.maxima import maxima
from memspec_actors.speculation.sampling import PositionNoise, Stream, choose, probabilities

__all__ = [
    "AcceptanceRule",
    "Draw",
    "Exact",
    "Match",
    "Proposal",
    "Rejection",
    "Verdict",
    "argmax_of",
    "judge_unseen",
]


class Draw(NamedTuple):
    """One drafted token, and the (V,) distribution it was drawn from if a rule asks for it."""

    id: int
    probs: Tensor | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The k drafted tokens of one iteration; ``probs`` (k, V) None means each was certain (one-hot).

    The draft knows the first ``num_common`` ids of the target's (None: all).
    """

    ids: tuple[int, ...]
    probs: Tensor | None = None
    num_common: int | None = None

    @classmethod
    def of(cls, draws: Sequence[Draw], num_common: int | None = None) -> "Proposal":
        """Gather what was drawn for consecutive positions."""
        rows = [draw.probs for draw in draws if draw.probs is not None]
        return cls(tuple(draw.id for draw in draws), torch.stack(rows) if rows else None, num_common)


class Verdict(NamedTuple):
    """How many proposed tokens stand, and the target's token after them: recovered, or the bonus if all stand.

    ``distances`` are those of the tokens judged, the first rejected one included, from rules that measure them;
    ``departures`` the positions among the accepted ones at which the target's own choice was another token.
    """

    num_accepted: int
    next_id: int
    distances: tuple[float, ...] = ()
    departures: tuple[int, ...] = ()


@runtime_checkable
class AcceptanceRule(Protocol):
    """Decide about proposals of one request; a rule may hold state of that request."""

    @property
    def name(self) -> str: ...

    @property
    def lossless(self) -> bool:
        """Tell whether the text is always the target's own."""
        ...

    @property
    def needs_draft_probs(self) -> bool:
        """Tell whether ``verify`` wants ``Proposal.probs``."""
        ...

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        """Judge k proposed tokens.

        ``target_logits`` is (k + 1, V): row i is the target's output before proposed token i, the last row the one
        after all of them. ``position`` is the index of the first proposed token in the sequence. Raises InvalidLogits
        if a row that decides is no distribution.
        """
        ...


class Exact:
    """Accept while the proposal is the target's argmax: greedy decoding, id for id."""

    name = "exact"
    lossless = True
    needs_draft_probs = False

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        own = argmax_of(target_logits)
        num_accepted = _common_prefix(proposal.ids, own)
        return Verdict(num_accepted, own[num_accepted])


class Match:
    """Accept while the proposal is what the target draws itself with the noise of that position.

    Draft and target share the noise (Gumbel coupling), so a good draft mostly draws the target's token, and the text
    is a function of the target and the seed alone: the same under every draft, draft length and schedule.
    """

    name = "match"
    lossless = True
    needs_draft_probs = False

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        # Row by row: rows after the first mismatch are never filtered, and a row's result cannot depend on the others.
        for i, proposed in enumerate(proposal.ids):
            own = _draw(target_logits[i], params, noise, position + i)
            if own != proposed:
                return Verdict(i, own)
        num_drafted = len(proposal.ids)
        return Verdict(num_drafted, _draw(target_logits[num_drafted], params, noise, position + num_drafted))


class Rejection:
    """Accept x with probability min(1, p(x) / q(x)), else draw from max(p - q, 0): speculative sampling.

    Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. Exact in distribution.
    """

    name = "rejection"
    lossless = True
    needs_draft_probs = True

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        for i, proposed in enumerate(proposal.ids):
            p = probabilities(target_logits[i], params)  # (V,)
            q = _one_hot(proposed, p) if proposal.probs is None else proposal.probs[i]
            # u < p / q without the division; u < 1, so p >= q always accepts.
            if noise.uniform(position + i, Stream.ACCEPT) * float(q[proposed]) >= float(p[proposed]):
                return Verdict(i, self._recover(p, q, noise, position + i))
        num_drafted = len(proposal.ids)
        return Verdict(num_drafted, _draw(target_logits[num_drafted], params, noise, position + num_drafted))

    def _recover(self, p: Tensor, q: Tensor, noise: PositionNoise, position: int) -> int:
        residual = (p - q).clamp_min_(0.0)
        if not bool(residual.any()):  # p and q differ by rounding only: p itself is as exact
            residual = p
        return choose(residual, noise.arrivals(position, p.shape[-1], Stream.RECOVER))


def argmax_of(target_logits: Tensor) -> list[int]:
    """Return the argmax of each row (T, V). Raises InvalidLogits if a row has none."""
    ids, best = maxima(target_logits)
    if not all(map(isfinite, best)):
        raise InvalidLogits(f"the target's largest logits are {best}; check the checkpoint and its dtype")
    return ids


def judge_unseen(drafted: Tensor, target_logits: Tensor) -> tuple[tuple[int, ...], Verdict]:
    """Return k drafted tokens and what `Exact` says of them, both of which only their device knows so far.

    ``drafted`` is (k,) int64, ``target_logits`` (k + 1, V). A device is waited for once. Raises InvalidLogits as
    `argmax_of` does.
    """
    best, argmax = target_logits.max(dim=-1)
    seen: list[int] = torch.cat((drafted, argmax, best.isfinite().all()[None].long())).tolist()
    ids, own, finite = tuple(seen[: len(drafted)]), seen[len(drafted) : -1], seen[-1]
    if not finite:
        own = argmax_of(target_logits)  # raises, naming the logits
    num_accepted = _common_prefix(ids, own)
    return ids, Verdict(num_accepted, own[num_accepted])


def _draw(logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int) -> int:
    return choose(probabilities(logits, params), noise.arrivals(position, logits.shape[-1]))


def _one_hot(token_id: int, like: Tensor) -> Tensor:
    row = torch.zeros_like(like)
    row[token_id] = 1.0
    return row


def _common_prefix(proposed: Sequence[int], own: Sequence[int]) -> int:
    return next((i for i, token_id in enumerate(proposed) if token_id != own[i]), len(proposed))
