"""Draft with a `LeanPass`: as many tokens as a stop rule wants in one call; TorchScript as well as Python."""

import torch
from torch import Tensor

from memspec_actors.models.lean.forward_pass import LeanPass
from memspec_actors.models.lean.memory import Memory
from memspec_actors.speculation.criterion import StopCriterion, goes_on, measured
from memspec_actors.speculation.signals import token_signal

__all__ = ["DraftingPass"]


class DraftingPass(LeanPass):
    """A pass that can be followed by more passes, each over the likeliest token of the one before."""

    @torch.jit.export
    def draft_until(
        self, ids: list[int], start: int, num: int, num_ids: int, stop: StopCriterion, by_ones: bool, memory: Memory
    ) -> tuple[list[int], list[float]]:
        """Run T tokens and go on with the likeliest of the first ``num_ids`` ids until ``stop`` or ``num`` ends it.

        Returns the k drafted tokens and their signals. The last one is not run: the memory then holds
        start + T + k - 1 tokens. ``by_ones`` runs every token as `one` does.
        """
        drafted: list[int] = []
        signals: list[float] = []
        measure, going = 1.0, True
        while going:
            logits = self._last_logits(ids, start, by_ones, memory)[0, :num_ids]
            start += len(ids)
            best = int(logits.argmax())
            signal = 0.0
            if stop.signal != "none":
                signal = token_signal(stop.signal, torch.softmax(logits.float(), dim=-1), best)
            drafted.append(best)
            signals.append(signal)
            ids = [best]
            measure = measured(stop, measure, signal)
            going = len(drafted) < num and goes_on(stop, len(drafted), measure)
        return drafted, signals

    def _last_logits(self, ids: list[int], start: int, by_ones: bool, memory: Memory) -> Tensor:
        """Run T tokens and return the logits (1, V) of the last."""
        if not by_ones:
            return self.forward(torch.tensor(ids, device=memory.kv.device), start, memory, True)
        for token in ids[:-1]:
            self._through_layers(token, start, memory)
            start += 1
        return self.one(ids[-1], start, memory)
