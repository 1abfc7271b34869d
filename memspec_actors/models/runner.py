"""What every model runner offers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from memspec_actors.speculation.criterion import StopCriterion
from memspec_actors.speculation.proposing import Drawing

__all__ = ["AdaptiveDrafter", "Cache", "GreedyDrafter", "Runner", "checked_truncation"]


class Cache(Protocol):
    """Keys and values of one sequence under one runner."""

    @property
    def length(self) -> int:
        """Number of tokens held."""
        ...

    def truncate(self, length: int) -> int:
        """Forget all tokens from ``length`` on; return how many. Raises ValueError if that would grow the cache."""
        ...

    def reset(self) -> None:
        """Forget every token; the memory is kept."""
        ...


class Runner(Protocol):
    """A causal language model bound to its weights."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits, padding included."""
        ...

    @property
    def max_positions(self) -> int:
        """Longest sequence that the model takes."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Number format of weights, keys, values and logits."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take."""
        ...

    def new_cache(self, max_tokens: int) -> Cache:
        """Return an empty cache for about ``max_tokens`` tokens; it grows up to ``max_positions``."""
        ...

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens to a cache of this runner's and return logits (T, V), or those of the last ones only.

        With ``logits_to_keep`` n > 0 these are the min(n, T) last rows.
        Raises ValueError for no tokens, or more than ``max_positions`` in all.
        """
        ...


@runtime_checkable
class GreedyDrafter(Protocol):
    """A runner that drafts a number of tokens in one call."""

    def draft(self, ids: Sequence[int], cache: Cache, num: int, num_ids: int) -> list[int]:
        """Append T tokens to ``cache`` and go on greedily for ``num`` >= 1 tokens; all but the last are appended.

        Only the first ``num_ids`` ids are drafted. Raises as `Runner.forward` does.
        """
        ...


@runtime_checkable
class AdaptiveDrafter(Protocol):
    """A runner that drafts as many tokens as a stop rule wants in one call."""

    def draft_until(
        self, ids: Sequence[int], cache: Cache, num: int, num_ids: int, stop: StopCriterion, drawing: Drawing
    ) -> tuple[list[int], list[float], list[Tensor]]:
        """Append T tokens to ``cache`` and draft on until ``stop`` ends it, or with ``num`` >= 1 tokens.

        Only the first ``num_ids`` ids are drafted; all tokens but the last are appended. Returns the drafted tokens,
        their signals and, if ``drawing`` keeps them, distributions. Logits that nothing can be sampled from end the
        draft, too. Raises as `Runner.forward` does.
        """
        ...


def checked_truncation(current: int, length: int) -> int:
    """Return how many tokens a truncation removes; raises ValueError unless 0 <= length <= current."""
    if not 0 <= length <= current:
        raise ValueError(f"a cache of {current} tokens cannot be truncated to {length}")
    return current - length
