"""Draft with a `LeanPass`: as many tokens as a stop rule wants in one call; TorchScript as well as Python."""

import torch
from torch import Tensor

from memspec_actors.models.lean.forward_pass import LeanPass
from memspec_actors.models.lean.memory import Memory
from memspec_actors.speculation.criterion import StopCriterion, goes_on, measured
from memspec_actors.speculation.proposing import Drawing, drawn
from memspec_actors.speculation.signals import token_signal

__all__ = ["DraftingPass"]


class DraftingPass(LeanPass):
    """A pass that can be followed by more passes, each over a token that is drawn from what the one before says."""

    @torch.jit.export
    def draft_until(
        self,
        ids: list[int],
        start: int,
        num: int,
        num_ids: int,
        stop: StopCriterion,
        drawing: Drawing,
        by_ones: bool,
        memory: Memory,
    ) -> tuple[list[int], list[float], list[Tensor]]:
        """Run T tokens and go on, with what is drawn of the first ``num_ids`` ids, until ``stop`` or ``num`` ends it.

        Returns the k drafted tokens, their signals and, if they are to be kept, distributions. Logits that nothing can
        be drawn from end the draft, too. The memory then holds at least start + T + k - 1 tokens: the last was not run.
        ``by_ones`` runs every token as `one` does.
        """
        drafted: list[int] = []
        signals: list[float] = []
        kept: list[Tensor] = []
        measure, keep_probs = stop.before, drawing.keeps_probs or stop.signal != "none"
        while len(drafted) < num:
            logits = self._last_logits(ids, start, by_ones, memory)[0, :num_ids]
            start += len(ids)
            arrivals = None if drawing.filters is None else drawing.arrivals[len(drafted)]
            token, probs = drawn(logits, drawing.filters, arrivals, keep_probs)
            if token < 0:
                break
            ids = [token]
            drafted.append(token)
            signal = 0.0
            if probs is not None:
                if stop.signal != "none":
                    signal = token_signal(stop.signal, probs, token)
                if drawing.keeps_probs:
                    kept.append(probs)
            signals.append(signal)
            measure = measured(stop, measure, signal)
            if not goes_on(stop, len(drafted), measure):
                break
        return drafted, signals, kept

    def _last_logits(self, ids: list[int], start: int, by_ones: bool, memory: Memory) -> Tensor:
        """Run T tokens and return the logits (1, V) of the last."""
        if not by_ones:
            return self.forward(torch.tensor(ids, device=memory.kv.device), start, memory, True)
        for token in ids[:-1]:
            self._through_layers(token, start, memory)
            start += 1
        return self.one(ids[-1], start, memory)
