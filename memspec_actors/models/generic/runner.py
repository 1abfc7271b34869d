"""Run any causal language model through transformers, behind the same interface as the lean runner."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.generic.build import build_model, stand_ins
from memspec_actors.models.generic.codes import put_codes
from memspec_actors.models.kernels.linear import WeightPart
from memspec_actors.models.runner import Cache, checked_truncation

__all__ = ["GenericCache", "TransformersRunner"]


class GenericCache:
    """Wrap transformers' DynamicCache."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self.past = make()
        self._length = 0

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return self._length

    def truncate(self, length: int) -> int:
        """Forget all tokens from ``length`` on; return how many. Raises ValueError if that would grow the cache."""
        removed = checked_truncation(self._length, length)
        if length == 0:
            self.reset()
        elif removed:
            self.past.crop(-removed)  # a negative number means "remove so many" in every version
            self._length = length
        return removed

    def reset(self) -> None:
        """Forget every token."""
        self.past = self._make()
        self._length = 0

    def extend(self, num_tokens: int) -> None:
        """Count tokens whose keys and values have been written."""
        self._length += num_tokens


class TransformersRunner:
    """Run a transformers model; slower per call than the lean runner."""

    def __init__(self, model: Any, checkpoint: Checkpoint, dtype: torch.dtype, code_nbytes: int = 0) -> None:
        self._model = model
        self.vocab_size = checkpoint.vocab_size
        self.max_positions = checkpoint.max_positions
        self.dtype = dtype
        # The argument was renamed in transformers 5; the old name warns there.
        self._cache_argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        floats = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self.nbytes = floats + code_nbytes

    @classmethod
    def bound(
        cls,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        tensors: Mapping[str, Tensor],
        coded: Mapping[str, WeightPart],
        code_nbytes: int,
    ) -> "TransformersRunner":
        """Build the model around ``tensors`` and ``coded`` weights (``code_nbytes``), both by name, used in place.

        Raises CheckpointError as `build_model` does.
        """
        held = {**{name: tensor for name, tensor in stand_ins(checkpoint, dtype).items() if name in coded}, **tensors}
        model = build_model(checkpoint, dtype, held)
        put_codes(model, held, coded)
        return cls(model, checkpoint, dtype, code_nbytes)

    def new_cache(self, max_tokens: int) -> GenericCache:
        """Return an empty cache; it grows with the text."""
        from transformers import DynamicCache

        return GenericCache(DynamicCache)

    @torch.inference_mode()
    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens to ``cache`` and return logits (T, V), or those of the last ``logits_to_keep`` only.

        Raises ValueError for no tokens, or more than ``max_positions`` in all.
        """
        if not isinstance(cache, GenericCache):
            raise TypeError(f"the cache is a {type(cache).__name__}; make it with new_cache of this runner")
        if len(ids) == 0:
            raise ValueError("there are no tokens to run")
        end = cache.length + len(ids)
        if end > self.max_positions:
            raise ValueError(f"{end} tokens do not fit: the model has {self.max_positions} positions; shorten the text")
        block = torch.as_tensor(ids, dtype=torch.int64)[None]
        output = self._model(block, use_cache=True, logits_to_keep=logits_to_keep, **{self._cache_argument: cache.past})
        cache.extend(len(ids))
        logits: Tensor = output.logits[0]
        return logits
