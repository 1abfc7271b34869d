"""How sure a draft is of what it drafts when nothing stops it: what replays under stop rules that read it need."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from memspec_actors.models.runner import AdaptiveDrafter, Cache, Runner
from memspec_actors.predictor.emittable import emittable
from memspec_actors.protocols.traces import FreeRun
from memspec_actors.speculation.criterion import MAX_GAIN_TOKENS, StopCriterion
from memspec_actors.speculation.proposing import Drawing, drawn
from memspec_actors.speculation.signals import token_signal

__all__ = ["FreeRunner"]

NEVER = StopCriterion(MAX_GAIN_TOKENS)
WITH_PROBS = Drawing(None, [], keeps_probs=True)


class _Sureness(NamedTuple):
    """How sure a draft is of one token."""

    confidence: float
    entropy: float

    @classmethod
    def of(cls, probs: Tensor, token: int) -> "_Sureness":
        return cls(token_signal("confidence", probs, token), token_signal("entropy", probs, token))


class FreeRunner:
    """Let a draft run on freely from a text. ``num_common`` and ``gap_ids`` are as for a `ReadingDraft`."""

    def __init__(self, runner: Runner, num_common: int, gap_ids: tuple[int, ...] = ()) -> None:
        self._runner = runner
        self._num_common = num_common
        self._gap_ids = gap_ids

    @torch.inference_mode()
    def runs(self, tokens: Sequence[int], start: int, predicted: Sequence[int], room: int) -> tuple[FreeRun, ...]:
        """Return the free runs along ``tokens`` from index ``start`` on, as `TraceRecord` has them.

        ``predicted`` are the draft's own tokens in the places of those from ``start`` on, as far as it can read.
        ``room`` is how many tokens the text might have had: the last of them is never drafted.
        """
        if not predicted:
            return ()
        cache = self._runner.new_cache(min(len(tokens) + MAX_GAIN_TOKENS, self._runner.max_positions))
        along = self._sure_of(tokens, start, predicted, cache)
        wrong = [i for i, token in enumerate(predicted, start) if token != tokens[i]]
        begins = [start, *(i + 1 for i in wrong)]
        lasts = [*wrong, start + len(predicted) - 1]  # up to here a run has read the text
        bound, runs = min(room - 1, self._runner.max_positions), []
        for begin, last in zip(reversed(begins), reversed(lasts), strict=True):  # each forgets what the next one reads
            run = along[begin - start : min(last + 1, bound) - start]
            if run:
                num = min(MAX_GAIN_TOKENS - 1, bound - 1 - last)
                run += self._beyond(predicted[last - start], num, last, cache) if num > 0 else []
                confidences, entropies = zip(*run, strict=True)
                runs.append(FreeRun.of(begin - start, confidences, entropies))
        return tuple(reversed(runs))

    def _sure_of(self, tokens: Sequence[int], start: int, predicted: Sequence[int], cache: Cache) -> list[_Sureness]:
        """Read the text once and tell how sure the draft is of each of its own tokens there."""
        logits = self._emittable(self._runner.forward(tokens[: start + len(predicted) - 1], cache))
        rows = logits[start - 1 :]
        return [_Sureness.of(_likeliest(row)[1], own) for row, own in zip(rows, predicted, strict=True)]

    def _beyond(self, token: int, num: int, length: int, cache: Cache) -> list[_Sureness]:
        """Go on for up to ``num`` tokens from the first ``length`` that were read and ``token``."""
        cache.truncate(length)
        if isinstance(self._runner, AdaptiveDrafter) and not self._gap_ids:
            ids, _, rows = self._runner.draft_until([token], cache, num, self._num_common, NEVER, WITH_PROBS)
            return [_Sureness.of(row, own) for row, own in zip(rows, ids, strict=True)]
        run: list[_Sureness] = []
        while len(run) < num:
            logits = self._emittable(self._runner.forward([token], cache, logits_to_keep=1))
            token, probs = _likeliest(logits[-1])
            run.append(_Sureness.of(probs, token))
        return run

    def _emittable(self, logits: Tensor) -> Tensor:
        return emittable(logits, self._num_common, self._gap_ids)


def _likeliest(logits: Tensor) -> tuple[int, Tensor]:
    """Draw as a stop rule sees it: the likeliest token and the distribution (V,) behind logits (V,)."""
    token, probs = drawn(logits, None, None, keep_probs=True)
    assert probs is not None
    return token, probs
