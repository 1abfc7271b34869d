"""The rules of one request on logits: what is drafted, what of it stands, and what adjusts the logits before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

import torch
from torch import Tensor

from memspec_actors.errors import InvalidLogits
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.runner import AdaptiveDrafter, Cache, GreedyDrafter
from memspec_actors.protocols.messages import ThresholdsPublished
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.speculation.accept import AcceptanceRule, Draw, Exact, Proposal, Verdict
from memspec_actors.speculation.adjustment import LogitAdjustment
from memspec_actors.speculation.criterion import StopCriterion, goes_on, measured, resumed
from memspec_actors.speculation.lossy import Bayes
from memspec_actors.speculation.proposing import Drawing, propose
from memspec_actors.speculation.sampling import Filters, PositionNoise
from memspec_actors.speculation.stop import StopRule, criterion_of

__all__ = ["TokenRules"]

VARIATES_AT_ONCE = 1 << 17  # drawn before the tokens they are for: about 1 ms and 1 MB


@dataclass(slots=True)
class TokenRules:
    """Draft and verify tokens of one request, of which the target has ``num_ids``.

    ``adjustment`` is None where the request takes logits as they come. ``tokens`` of a method are prompt and committed
    text.
    """

    request: GenerationRequest
    num_ids: int
    accept: AcceptanceRule
    stop_rule: StopRule
    adjustment: LogitAdjustment | None
    _noise: PositionNoise = field(init=False)

    def __post_init__(self) -> None:
        self._noise = PositionNoise(self.request.seed)

    @property
    def drafts_blindly(self) -> bool:
        """Tell whether all of a draft's tokens are its likeliest, and none is looked at before the last."""
        return (
            self.request.sampling.greedy
            and self.adjustment is None
            and not self.accept.needs_draft_probs
            and not self.stop_rule.reads_probs
            and criterion_of(self.stop_rule) is not None
        )

    @property
    def takes_maxima(self) -> bool:
        """Tell whether the target's largest logits decide, as they come."""
        return self.adjustment is None and isinstance(self.accept, Exact)

    def adapt(self, thresholds: ThresholdsPublished) -> None:
        """Go on with what verified tokens have taught."""
        if thresholds.stop_threshold is not None:
            self.stop_rule.adapt(thresholds.stop_threshold, thresholds.calibration)
        if isinstance(self.accept, Bayes):
            self.accept.odds = thresholds.odds

    def draft(
        self, bound: BoundDraft, cache: Cache, tokens: Sequence[int], length: int
    ) -> tuple[Proposal, tuple[float, ...]]:
        """Let a draft read what its cache lacks and go on for up to ``length`` tokens.

        Returns them, and the stop rule's signal of each.
        """
        self._noise.forget(len(tokens))
        criterion = criterion_of(self.stop_rule)
        if criterion is not None and isinstance(bound.runner, AdaptiveDrafter) and self.adjustment is None:
            return self._draft_by_pieces(bound.runner, bound.num_common, criterion, cache, tokens, length)
        if self.drafts_blindly and isinstance(bound.runner, GreedyDrafter):
            ids = bound.runner.draft(tokens[cache.length :], cache, length, bound.num_common)
            return Proposal(tuple(ids)), (0.0,) * length
        return self._draft_by_tokens(bound, cache, tokens, length)

    def _draft_by_pieces(
        self,
        drafter: AdaptiveDrafter,
        num_common: int,
        criterion: StopCriterion,
        cache: Cache,
        tokens: Sequence[int],
        length: int,
    ) -> tuple[Proposal, tuple[float, ...]]:
        ids: list[int] = []
        signals: list[float] = []
        probs: list[Tensor] = []
        feed, piece = tokens[cache.length :], self._piece(length)
        while True:
            num = min(piece, length - len(ids))
            drawing = self._drawing(len(tokens) + len(ids), num)
            drafted, their_signals, their_probs = drafter.draft_until(feed, cache, num, num_common, criterion, drawing)
            ids, signals, probs = ids + drafted, signals + their_signals, probs + their_probs
            if len(drafted) < num or len(ids) == length:
                break
            measure = reduce(partial(measured, criterion), their_signals, criterion.before)
            if not goes_on(criterion, num, measure):
                break
            feed, criterion = drafted[-1:], resumed(criterion, num, measure)
        return Proposal(tuple(ids), torch.stack(probs) if probs else None, num_common), tuple(signals)

    def _draft_by_tokens(
        self, bound: BoundDraft, cache: Cache, tokens: Sequence[int], length: int
    ) -> tuple[Proposal, tuple[float, ...]]:
        rule, feed = self.stop_rule, tokens[cache.length :]
        draws: list[Draw] = []
        signals: list[float] = []
        while len(draws) < length:
            logits = self._at_hand(bound.runner.forward(feed, cache, logits_to_keep=1)[-1:, : bound.num_common])
            logits = self._adjusted(logits, tokens, [draw.id for draw in draws])[-1]
            position = len(tokens) + len(draws)
            try:
                draw = propose(
                    logits,
                    self.request.sampling,
                    self._noise,
                    position,
                    self.accept,
                    self.num_ids,
                    keep_probs=rule.reads_probs,
                )
            except InvalidLogits:  # a draft that went wrong costs its own tokens, not the request
                break
            draws.append(draw)
            feed = [draw.id]
            signals.append(rule.signal(draw) if rule.reads_probs else 0.0)
            if not rule.keep_drafting(len(draws), signals[-1]):
                break
        if not self.accept.needs_draft_probs:
            return Proposal(tuple(draw.id for draw in draws)), tuple(signals)
        return Proposal.of(draws, bound.num_common), tuple(signals)

    def verify(self, proposal: Proposal, logits: Tensor, tokens: Sequence[int]) -> Verdict:
        """Judge k proposed tokens by the target's logits (k + 1, ``num_ids``). Raises InvalidLogits."""
        adjusted = self._adjusted(self._at_hand(logits), tokens, proposal.ids)
        return self.accept.verify(proposal, adjusted, self.request.sampling, self._noise, len(tokens))

    def _piece(self, length: int) -> int:
        """Return how many of ``length`` tokens are drafted in one call."""
        return length if self.request.sampling.greedy else max(1, VARIATES_AT_ONCE // self.num_ids)

    def _drawing(self, position: int, num: int) -> Drawing:
        """Return how tokens for ``num`` positions are drawn."""
        sampling, keeps_probs = self.request.sampling, self.accept.needs_draft_probs
        if sampling.greedy:
            return Drawing(None, [], keeps_probs)
        arrivals = [self._noise.arrivals(each, self.num_ids) for each in range(position, position + num)]
        return Drawing(Filters.of(sampling), arrivals, keeps_probs)

    def _at_hand(self, logits: Tensor) -> Tensor:
        """Return logits where rules go about them: on the host, but where no more than maxima are taken."""
        return logits if self.takes_maxima else logits.cpu()

    def _adjusted(self, logits: Tensor, tokens: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """Return what is drawn from: logits (T, V) after ``tokens`` and ``drafted``, adjusted if asked for."""
        if self.adjustment is None:
            return logits
        return self.adjustment.apply(logits, tokens[len(self.request.prompt_ids) :], drafted)
