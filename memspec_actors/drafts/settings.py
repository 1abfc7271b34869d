"""What a distillation is asked for, and what it tells."""

from collections.abc import Mapping

import msgspec

from memspec_actors.config_sections import MAX_THREADS
from memspec_actors.errors import ConfigError
from memspec_actors.models.dtypes import DtypeName

__all__ = ["DistillReport", "DistillSettings"]


class DistillSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Say how a draft is distilled.

    ``target`` and ``draft`` are model directories. The target answers greedily, or at a ``temperature``. The loss is
    the cross-entropy of its answers and, weighted by ``logits_weight`` against that, the divergence of the draft's
    distribution from the target's, over its ``top_k`` likeliest ids (0: all). Without ``learning_rate`` it is 0.25
    divided by the draft's width. Acceptance is that of ``k`` drafted tokens per iteration. Raises ConfigError for
    numbers out of range.
    """

    target: str
    draft: str
    dtype: DtypeName = "float32"
    max_new_tokens: int = 128
    temperature: float = 0.0
    epochs: int = 5
    batch_tokens: int = 1024
    learning_rate: float | None = None
    logits_weight: float = 0.5
    top_k: int = 32
    k: int = 5
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "epochs", "batch_tokens", "k"):
            self._require(name, getattr(self, name) >= 1, "an integer >= 1")
        self._require("threads", 1 <= self.threads <= MAX_THREADS, f"an integer in [1, {MAX_THREADS}]")
        self._require("temperature", self.temperature >= 0, "a number >= 0")
        self._require("learning_rate", self.learning_rate is None or self.learning_rate > 0, "a number > 0")
        self._require("logits_weight", 0 <= self.logits_weight <= 1, "a number in [0, 1]")
        self._require("top_k", self.top_k == 0 or self.top_k >= 2, "an integer >= 2, or 0 for all")

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ConfigError(f"{name} is {getattr(self, name)}; it must be {expected}")


class DistillReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what a distillation did; acceptance is in tokens per iteration, by kind of prompt and over "all"."""

    settings: DistillSettings
    num_prompts: int
    num_tokens: int
    num_held_out: int
    loss: float
    accepted_before: Mapping[str, float]
    accepted_after: Mapping[str, float]
