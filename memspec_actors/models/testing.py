"""Toy models for tests and simulations: exact, tiny, and as right or wrong as one wishes."""

import random
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from memspec_actors.models.runner import Cache, checked_truncation

__all__ = ["ToyCache", "ToyRunner", "ToyText"]

CONTEXT = 3  # tokens that decide the next one


class ToyCache:
    """Hold the very tokens that were fed, so that a stale cache shows in what the model says next."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def length(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> int:
        removed = checked_truncation(len(self.tokens), length)
        del self.tokens[length:]
        return removed

    def reset(self) -> None:
        self.tokens.clear()


class ToyRunner:
    """A language model whose logits are a fixed random function of its cache's last three tokens and length.

    A runner with the same ``seed`` and ``error_rate`` 0 is the same model. With an ``error_rate`` it is a draft of it
    that gets that share of positions wrong. With a ``sharpness`` above 1 it is surer of the same tokens. ``alive``
    False makes any use an AssertionError: its memory was freed.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        vocab_size: int = 17,
        max_positions: int = 4096,
        error_rate: float = 0.0,
        error_seed: int = 1,
        sharpness: float = 1.0,
    ) -> None:
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self.dtype = torch.float32
        self.nbytes = 64
        self.alive = True
        self._seed = seed
        self._error_rate = error_rate
        self._error_seed = error_seed
        self._sharpness = sharpness

    def new_cache(self, max_tokens: int) -> ToyCache:
        return ToyCache()

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens and return logits (T, V), or those of the last ``logits_to_keep`` only."""
        assert isinstance(cache, ToyCache), "a cache of another runner"
        assert self.alive, "a draft was used after its memory was freed"
        rows = []
        for index, token in enumerate(ids.tolist() if isinstance(ids, Tensor) else ids):
            if not 0 <= token < self.vocab_size:
                raise IndexError(f"token id {token} is not in a vocabulary of {self.vocab_size}")
            cache.tokens.append(token)
            if not logits_to_keep or index >= len(ids) - logits_to_keep:
                rows.append(self.logits(cache.tokens))
        if len(cache.tokens) > self.max_positions:
            raise ValueError(f"{len(cache.tokens)} tokens do not fit in {self.max_positions} positions")
        return torch.stack(rows)

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Return logits (V,) of what follows ``tokens``."""
        key = _hash(self._seed, len(tokens), *tokens[-CONTEXT:])
        if self._error_rate and _hash(key, self._error_seed) % 10_000 < self._error_rate * 10_000:
            key = _hash(key, self._error_seed, 1)
        return _random_logits(key, self.vocab_size) * self._sharpness


class ToyText:
    """Decode ids to text: each to its number and a space."""

    def feed(self, token_id: int) -> str:
        return f"{token_id} "

    def flush(self) -> str:
        return ""


@lru_cache(maxsize=100_000)
def _random_logits(key: int, vocab_size: int) -> Tensor:
    rng = random.Random(key)
    return torch.tensor([rng.gauss(0.0, 3.0) for _ in range(vocab_size)])


def _hash(*values: int) -> int:
    state = 0x9E3779B97F4A7C15
    for value in values:
        state = ((state ^ (value & 0xFFFFFFFFFFFFFFFF)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state >> 1
