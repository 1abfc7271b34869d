"""A draft on a device: it drafts several tokens without the host looking at any of them."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from memspec_actors.models.devices.device import Device
from memspec_actors.models.drafting.fixed_step import FixedStep
from memspec_actors.models.lean.cache import FIRST_CAPACITY, KvCache
from memspec_actors.models.lean.memory import Memory
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Cache

__all__ = ["ArenaSlot", "DeviceDraft", "FixedCache"]


@dataclass(slots=True)
class _Workspace:
    """Keys and values of one sequence, and the step that is bound to them; both outlive the sequence."""

    memory: Memory | None = None
    step: FixedStep | None = None


class FixedCache(KvCache):
    """A cache in a workspace. Whatever is in it beyond its length are numbers, as a `FixedStep` wants it."""

    def __init__(self, runner: LeanRunner, workspace: _Workspace) -> None:
        self.workspace = workspace
        super().__init__(runner.shape, runner.dtype, FIRST_CAPACITY, runner.device, workspace.memory)

    def _allocated(self, capacity: int) -> Memory:
        memory = super()._allocated(capacity)
        memory.kv[:, :, :, self.length :].zero_()
        self.workspace.memory, self.workspace.step = memory, None
        return memory


class ArenaSlot:
    """One place in the arena, and what can be used on by every draft of one layout that is loaded there.

    That is the workspace of the last text, once nobody holds its cache any more.
    """

    def __init__(self, device: Device, num_ids: int) -> None:
        self.device = device
        self.num_ids = num_ids
        self._workspace = _Workspace()
        self._used_by: weakref.ref[FixedCache] | None = None
        self._lock = Lock()

    def new_cache(self, runner: LeanRunner) -> FixedCache:
        """Return an empty cache for a draft that is loaded there."""
        with self._lock:
            if self._used_by is not None and self._used_by() is not None:
                self._workspace = _Workspace()
            elif self._workspace.memory is not None:
                self._workspace.memory.kv.zero_()
            cache = FixedCache(runner, self._workspace)
            self._used_by = weakref.ref(cache)
            return cache


class DeviceDraft:
    """Run a draft as its lean runner does, and draft without being looked at."""

    def __init__(self, runner: LeanRunner, slot: ArenaSlot) -> None:
        self.vocab_size = runner.vocab_size
        self.max_positions = runner.max_positions
        self.dtype = runner.dtype
        self.nbytes = runner.nbytes
        self._runner = runner
        self._slot = slot

    @torch.inference_mode()
    def new_cache(self, max_tokens: int) -> FixedCache:
        """Return an empty cache; it grows up to ``max_positions``. Its step is recorded here, not while drafting."""
        cache = self._slot.new_cache(self._runner)
        self._step(cache)
        return cache

    @torch.inference_mode()
    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens to ``cache`` and return logits, as `LeanRunner.forward` does; one token takes the step."""
        if len(ids) != 1 or isinstance(ids, Tensor) or not isinstance(cache, FixedCache):
            return self._runner.forward(ids, cache, logits_to_keep)
        self._runner.check(ids)
        end = cache.reserve(1)
        logits = self._step(cache).logits(ids[0], cache.length)
        cache.extend(end)
        return logits

    def draft(self, ids: Sequence[int], cache: Cache, num: int, num_ids: int) -> list[int]:
        """Draft as `GreedyDrafter.draft` says; ``num_ids`` is the number that the draft was bound for."""
        if num_ids != self._slot.num_ids:
            raise ValueError(f"num_ids is {num_ids}; this draft was bound for {self._slot.num_ids}")
        drafted: list[int] = self.draft_unseen(ids, cache, num)[1:].tolist()
        return drafted

    @torch.inference_mode()
    def draft_unseen(self, ids: Sequence[int], cache: Cache, num: int) -> Tensor:
        """Append T tokens and go on greedily for ``num`` >= 1; return the last of ``ids`` and what was drafted.

        That is (num + 1,) int64 on the device, and holds until the next call; the host has waited for none of it. All
        but the last are appended. Raises as `LeanRunner.forward` does.
        """
        if not isinstance(cache, FixedCache):
            raise TypeError(f"the cache is a {type(cache).__name__}; make it with new_cache of this runner")
        self._runner.check(ids)
        end = cache.reserve(len(ids) + num - 1)
        step, place = self._step(cache), cache.length + len(ids) - 1
        first = None
        if len(ids) > 1:
            logits = self._runner.forward(ids, cache, logits_to_keep=1)
            first = logits[:, : self._slot.num_ids].argmax(-1)
        text = step.draft(ids[-1], place, num, first)
        cache.extend(end)
        return text

    def _step(self, cache: FixedCache) -> FixedStep:
        """Return the step of a cache's workspace; recorded anew where the cache is new or has grown."""
        workspace = cache.workspace
        if workspace.step is None:
            workspace.step = FixedStep(self._runner, cache.memory, self._slot.num_ids, self._slot.device)
        return workspace.step
