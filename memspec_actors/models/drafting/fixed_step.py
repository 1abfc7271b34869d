"""Draft token after token on a device by one step, always the same, so that it can be recorded and replayed."""

import torch
from torch import Tensor

from memspec_actors.models.devices.device import Device
from memspec_actors.models.lean.memory import Memory
from memspec_actors.models.lean.runner import LeanRunner

__all__ = ["FixedStep"]


class FixedStep:
    """Go on greedily from a token, among the first ``num_ids`` ids; the host looks at none of what is drafted.

    The step reads its token from a text on the device, at a place that is kept there too, and puts the next token
    behind it. Bound to ``memory`` and to the memory of the runner's weights, whatever weights come to lie there.
    """

    def __init__(self, runner: LeanRunner, memory: Memory, num_ids: int, device: Device) -> None:
        self.memory = memory
        self._runner = runner
        self._num_ids = num_ids
        self._capacity = memory.kv.size(3)
        self._logits = torch.zeros(1, runner.vocab_size, dtype=runner.dtype, device=memory.kv.device)
        self._text = torch.zeros(self._capacity + 1, dtype=torch.int64, device=memory.kv.device)
        self._place = torch.zeros(1, dtype=torch.int64, device=memory.kv.device)
        self._run = device.repeatable(self._step, self._rewind)

    def draft(self, token: int, place: int, num: int, first: Tensor | None = None) -> Tensor:
        """Return ``token``, which stands at ``place``, and ``num`` tokens after it: (num + 1,) int64, on the device.

        If the ``first`` of them (1,) is known, ``token`` has been run. The result holds until the next call.
        """
        self._text[place].fill_(token)
        known = 0 if first is None else 1
        if first is not None:
            self._text[place + 1 : place + 2].copy_(first)
        self._place.fill_(place + known)
        for _ in range(num - known):
            self._run()
        return self._text[place : place + num + 1]

    def logits(self, token: int, place: int) -> Tensor:
        """Run ``token`` at ``place`` and return its logits (1, V)."""
        self.draft(token, place, 1)
        return self._logits.clone()

    def _step(self) -> None:
        token = self._text.index_select(0, self._place)
        self._logits.copy_(self._runner.fixed(token, self._place, self.memory))
        self._place.add_(1)
        self._text[self._place] = self._logits[:, : self._num_ids].argmax(-1)

    def _rewind(self) -> None:
        """Go where trying the step does no harm: to the last place, free as long as anything can be drafted."""
        self._place.fill_(self._capacity - 1)
