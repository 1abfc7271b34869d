"""Models played from a trace: they say what the real ones said, without computing anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.models.runner import Cache, checked_truncation
from memspec_actors.protocols.traces import TraceRecord

__all__ = ["TracedRunner", "draft_runners", "target_runner"]


@dataclass(slots=True)
class _Length:
    """A cache that only counts: where in the text a model stands is all that it needs to know."""

    length: int = 0

    def truncate(self, length: int) -> int:
        removed = checked_truncation(self.length, length)
        self.length = length
        return removed

    def reset(self) -> None:
        self.length = 0


class TracedRunner:
    """A model that predicts ``predictions[i]`` after reading i + 1 tokens, whatever they were.

    In greedy lossless decoding that is exact where it matters: tokens that a draft proposes after its first mistake are
    thrown away, and so are the target's rows that follow them.
    """

    dtype = torch.float32
    nbytes = 0

    def __init__(self, predictions: Sequence[int], *, vocab_size: int, max_positions: int) -> None:
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self._predictions = torch.tensor([*predictions, *[0] * (max_positions - len(predictions))])

    def new_cache(self, max_tokens: int) -> Cache:
        return _Length()

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, last_only: bool = False) -> Tensor:
        """Append T tokens and return logits (T, V), or (1, V) of the last one only: 1 for the prediction, else 0."""
        assert isinstance(cache, _Length), "a cache of another runner"
        start, cache.length = cache.length, cache.length + len(ids)
        predictions = self._predictions[cache.length - 1 if last_only else start : cache.length]
        logits = torch.zeros(len(predictions), self.vocab_size)
        return logits.scatter_(1, predictions[:, None], 1.0)


def target_runner(record: TraceRecord, vocab_size: int, k: int) -> TracedRunner:
    """Return the target: it says the trace's text."""
    text = (*record.prompt_ids, *record.output_ids)
    return TracedRunner(text[1:], vocab_size=vocab_size, max_positions=len(text) + k)


def draft_runners(record: TraceRecord, vocab_size: int, k: int) -> Mapping[str, TracedRunner]:
    """Return the drafts: each says the text's next token where the trace says that it did, and another elsewhere."""
    return {name: _draft_runner(record, name, vocab_size, k) for name in record.accepted}


def _draft_runner(record: TraceRecord, name: str, vocab_size: int, k: int) -> TracedRunner:
    prompt, text = record.prompt_ids, record.output_ids
    agrees = [run > 0 for run in record.accepted[name]]
    said = [token if right else (token + 1) % vocab_size for token, right in zip(text, agrees, strict=True)]
    num_read = sum(entropy is not None for entropy in record.entropies[name])
    whole = num_read == len(text)  # else its context, or its vocabulary, ended before the text did
    return TracedRunner(
        (*prompt[1:], *said),
        vocab_size=vocab_size,
        max_positions=len(prompt) + (len(text) + k if whole else num_read - 1),
    )
