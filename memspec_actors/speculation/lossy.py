"""Acceptance rules that let some of the draft's tokens stand where the target would have chosen another one.

All of them accept a token that is the target's own choice, and differ in which others they tolerate. A tolerated token
is part of the target's context from then on.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from memspec_actors.protocols.messages import Odds
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import Proposal, Verdict, argmax_of
from memspec_actors.speculation.divergence import entropy, js_distances
from memspec_actors.speculation.odds import is_between
from memspec_actors.speculation.sampling import PositionNoise, Stream, choose, probabilities

__all__ = ["Bayes", "CrossEntropyThreshold", "DivergenceThreshold", "Judged", "Relaxed", "Typical"]


@dataclass(slots=True)
class Judged:
    """The tokens under judgement, with what the target and the draft say about them.

    Distributions are those that are sampled from; when greedy, the softmax of the logits.
    """

    proposal: Proposal
    target_logits: Tensor  # (k + 1, V)
    params: SamplingParams
    noise: PositionNoise
    position: int
    _argmax: list[int] = field(init=False, default_factory=list)
    _distances: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.params.greedy:
            self._argmax = argmax_of(self.target_logits)

    def own(self, i: int) -> int:
        """Return the token that the target chooses at row i."""
        if self.params.greedy:
            return self._argmax[i]
        probs = probabilities(self.target_logits[i], self.params)
        return choose(probs, self.noise.arrivals(self.position + i, probs.shape[-1]))

    def target_probs(self, start: int, stop: int) -> Tensor:
        """Return the target's distributions of rows ``start`` to ``stop``: (stop - start, V)."""
        rows = self.target_logits[start:stop]
        return torch.softmax(rows.float(), dim=-1) if self.params.greedy else probabilities(rows, self.params)

    def first_distances(self, num: int) -> list[float]:
        """Return the distances of the first ``num`` rows; each is computed once."""
        if len(self._distances) < num:
            self._distances += self.distances(len(self._distances), num)
        return self._distances[:num]

    def distances(self, start: int, stop: int) -> list[float]:
        """Return the Jensen-Shannon distances of target and draft, taken over the ids that both know."""
        assert self.proposal.probs is not None, "a rule that measures distances needs the draft's distributions"
        common = self.proposal.num_common
        return js_distances(self.target_probs(start, stop)[:, :common], self.proposal.probs[start:stop, :common])

    def uniform(self, i: int) -> float:
        return self.noise.uniform(self.position + i, Stream.ACCEPT)


class Relaxed(ABC):
    """Accept while the proposal is the target's choice or is tolerated in its place.

    Greedy: the target's choice is its argmax. Sampling: it is drawn with the noise of that position, which the draft
    drew with too, as under ``match``.
    """

    lossless = False
    needs_draft_probs = True

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def tolerates(self, judged: Judged, i: int) -> bool:
        """Decide whether token i, which is not the target's choice, may stand."""

    def distances(self, judged: Judged, num_judged: int) -> tuple[float, ...]:
        """Return the distances of the first ``num_judged`` tokens if this rule learns from them."""
        return ()

    def verify(
        self, proposal: Proposal, target_logits: Tensor, params: SamplingParams, noise: PositionNoise, position: int
    ) -> Verdict:
        judged = Judged(proposal, target_logits, params, noise, position)
        departures: list[int] = []
        for i, proposed in enumerate(proposal.ids):
            own = judged.own(i)
            if own == proposed:
                continue
            if not self.tolerates(judged, i):
                return Verdict(i, own, self.distances(judged, i + 1), tuple(departures))
            departures.append(i)
        num_drafted = len(proposal.ids)
        return Verdict(num_drafted, judged.own(num_drafted), self.distances(judged, num_drafted), tuple(departures))


class Bayes(Relaxed):
    """Tolerate a token by the probability of acceptance at its distance: AdaSD's verification step.

    Greedy: from 1/2 on. Sampling: with that probability. While the probability is undefined nothing is tolerated.
    ``odds`` are those of all earlier iterations; the tokens accepted before in this one are counted in, tolerated ones
    too. Source: AdaSD, section 4.4 and algorithm 1.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.odds: Odds | None = None

    def tolerates(self, judged: Judged, i: int) -> bool:
        if self.odds is None:
            return False
        *before, distance = judged.first_distances(i + 1)
        probability = self.odds.probability(distance, list(filter(is_between, before)))
        if probability is None:
            return False
        return probability >= (0.5 if judged.params.greedy else judged.uniform(i))

    def distances(self, judged: Judged, num_judged: int) -> tuple[float, ...]:
        return tuple(judged.first_distances(num_judged))


class DivergenceThreshold(Relaxed):
    """Tolerate a token while the Jensen-Shannon divergence (bits) is at most a threshold: FSD.

    Source: Holsman et al. 2025, "Fuzzy speculative decoding for a tunable accuracy-runtime tradeoff".
    """

    def __init__(self, name: str, threshold: float) -> None:
        super().__init__(name)
        self._threshold = threshold

    def tolerates(self, judged: Judged, i: int) -> bool:
        (distance,) = judged.distances(i, i + 1)
        return distance * distance <= self._threshold


class CrossEntropyThreshold(Relaxed):
    """Tolerate a token x while -log p(x), the target's cross-entropy of it in nats, is at most a threshold: BiLD.

    Source: Kim et al. 2023, "Speculative decoding with big little decoder", the rollback policy.
    """

    needs_draft_probs = False

    def __init__(self, name: str, threshold: float) -> None:
        super().__init__(name)
        self._floor = math.exp(-threshold)

    def tolerates(self, judged: Judged, i: int) -> bool:
        return float(judged.target_probs(i, i + 1)[0, judged.proposal.ids[i]]) >= self._floor


class Typical(Relaxed):
    """Tolerate a token x that surprises the target no more than its own choices do on average: -log p(x) <= H(p).

    There is nothing to set and nothing to learn. Where the target is sure, nothing is tolerated. Source: the typical
    set of Meister et al. 2023, "Locally typical sampling"; with a factor of 1 the threshold exp(-H) of Cai et al. 2024,
    "Medusa", section 2.3.1.
    """

    needs_draft_probs = False

    def tolerates(self, judged: Judged, i: int) -> bool:
        (probs,) = judged.target_probs(i, i + 1)
        return float(probs[judged.proposal.ids[i]]) >= math.exp(-entropy(probs))
