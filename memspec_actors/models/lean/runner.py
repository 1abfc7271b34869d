"""Run a model of the Llama kind: what a `DraftingPass` may be asked, and the cache it appends to."""

import copy
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from memspec_actors.models.checkpoints.architecture import DecoderShape
from memspec_actors.models.devices.device import ids_on, raise_if_full
from memspec_actors.models.kernels.linear import LinearMap
from memspec_actors.models.kernels.script import as_written, outside_python
from memspec_actors.models.lean.cache import KvCache
from memspec_actors.models.lean.drafting_pass import DraftingPass
from memspec_actors.models.lean.memory import Memory, has_row
from memspec_actors.models.lean.weights import ModelWeights
from memspec_actors.models.runner import Cache
from memspec_actors.speculation.criterion import StopCriterion
from memspec_actors.speculation.proposing import LIKELIEST, Drawing

__all__ = ["LeanRunner"]

WINDOWED_TOKENS = 512  # run at once where a window needs a mask


class LeanRunner:
    """Run a model of the Llama kind; its logits are those of transformers."""

    def __init__(self, shape: DecoderShape, dtype: torch.dtype, weights: ModelWeights, *, nbytes: int) -> None:
        self.shape = shape
        self.vocab_size = shape.vocab_size
        self.max_positions = shape.max_positions
        self.dtype = dtype
        self.nbytes = nbytes
        self.device = weights.norm.device
        self._has_one = has_row(dtype, self.device)
        self._pass = _bound(weights, shape)

    def new_cache(self, max_tokens: int) -> KvCache:
        """Return an empty cache for about ``max_tokens`` tokens; it grows up to ``max_positions``."""
        return KvCache(self.shape, self.dtype, max_tokens, self.device)

    @torch.inference_mode()
    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens to ``cache`` and return logits (T, V), or those of the last ``logits_to_keep`` only.

        Raises ValueError for no tokens, or more than ``max_positions`` in all; IndexError for an id out of range. Ids
        in a tensor on a device are not looked at: they are to be in range. Raises DeviceFull for want of memory there.
        """
        own = self._own(cache)
        self.check(ids)
        if len(ids) == 1 and self._has_one:
            end = own.reserve(1)
            with as_written():
                logits = self._pass.one(int(ids[0]), own.length, own.memory)
            own.extend(end)
            return logits
        block = ids_on(self.device, ids)
        if own.length + len(block) > self.shape.window and len(block) > WINDOWED_TOKENS:
            return self._pieces(block, own, logits_to_keep)
        return self._block(block, own, logits_to_keep)

    @torch.inference_mode()
    def draft_until(
        self,
        ids: Sequence[int],
        cache: Cache,
        num: int,
        num_ids: int,
        stop: StopCriterion,
        drawing: Drawing = LIKELIEST,
    ) -> tuple[list[int], list[float], list[Tensor]]:
        """Append T tokens to ``cache`` and draft on until ``stop`` ends it, or with ``num`` >= 1 tokens.

        Only the first ``num_ids`` ids are drafted; all tokens but the last are appended. Returns the drafted tokens,
        their signals and, if ``drawing`` keeps them, distributions. Logits that nothing can be sampled from end the
        draft, too. Raises as `forward` does.
        """
        own = self._own(cache)
        self.check(ids)
        own.reserve(len(ids) + num - 1)
        with as_written():
            drafted, signals, probs = self._pass.draft_until(
                list(ids), own.length, num, num_ids, stop, drawing, self._has_one, own.memory
            )
        own.extend(own.length + len(ids) + len(drafted) - 1)
        return drafted, signals, probs

    def fixed(self, token: Tensor, place: Tensor, memory: Memory) -> Tensor:
        """Run one token at a place, both (1,) int64 tensors that are not looked at, and return its logits (1, V).

        Keys and values of later places are to be numbers.
        """
        with as_written():
            logits: Tensor = self._pass.fixed(token, place, memory)
        return logits

    def _own(self, cache: Cache) -> KvCache:
        if not isinstance(cache, KvCache):
            raise TypeError(f"the cache is a {type(cache).__name__}; make it with new_cache of this runner")
        return cache

    def check(self, ids: Tensor | Sequence[int]) -> None:
        """Raise ValueError for no ids, IndexError for one out of range: a device would not recover from it.

        Ids that are on a device are not looked at.
        """
        if len(ids) == 0:
            raise ValueError("there are no tokens to run")
        if isinstance(ids, Tensor):
            if ids.device.type != "cpu":
                return
            least, largest = (int(each) for each in ids.aminmax())
        else:
            least, largest = min(ids), max(ids)
        if not 0 <= least <= largest < self.vocab_size:
            raise IndexError(f"a token id of {least} to {largest} is not in a vocabulary of {self.vocab_size}")

    def _pieces(self, ids: Tensor, cache: KvCache, logits_to_keep: int) -> Tensor:
        """Run a long text through a window piece by piece: a mask for all of it could outgrow the model."""
        cache.reserve(len(ids))
        pieces = [self._block(piece, cache, logits_to_keep) for piece in torch.split(ids, WINDOWED_TOKENS)]
        return torch.cat(pieces)[-logits_to_keep:]

    def _block(self, ids: Tensor, cache: KvCache, logits_to_keep: int) -> Tensor:
        end = cache.reserve(len(ids))
        try:
            with as_written():
                logits: Tensor = self._pass(ids, cache.length, cache.memory, logits_to_keep)
        except RuntimeError as error:
            raise_if_full(error, self.device, f"{len(ids)} tokens at once")
            raise
        cache.extend(end)
        return logits


@functools.cache
def _code() -> DraftingPass:
    """Return a pass without weights, compiled: the code of all others."""
    nothing = torch.empty(0)
    return outside_python(DraftingPass(ModelWeights(nothing, [], nothing, LinearMap([])), 1, 1, 1.0))


def _bound(weights: ModelWeights, shape: DecoderShape) -> DraftingPass:
    """Return a pass on these weights."""
    bound = copy.copy(_code())
    bound.weights, bound.num_heads, bound.window, bound.eps = weights, shape.num_heads, shape.window, shape.rms_eps
    return bound
