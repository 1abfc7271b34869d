"""Models played from a trace: they say what the real ones said, without computing anything."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from memspec_actors.models.runner import Cache, checked_truncation
from memspec_actors.protocols.traces import FreeRun, TraceRecord
from memspec_actors.speculation.criterion import StopCriterion, goes_on, measured
from memspec_actors.speculation.proposing import Drawing
from memspec_actors.speculation.signals import acceptance_bound

__all__ = ["TracedDraft", "TracedRunner", "draft_runners", "target_runner"]


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

    def forward(self, ids: Tensor | Sequence[int], cache: Cache, logits_to_keep: int = 0) -> Tensor:
        """Append T tokens and return logits (T, V), or those of the last ones only: 1 for the prediction, else 0."""
        assert isinstance(cache, _Length), "a cache of another runner"
        start, cache.length = cache.length, cache.length + len(ids)
        predictions = self._predictions[start : cache.length][-logits_to_keep:]
        logits = torch.zeros(len(predictions), self.vocab_size)
        return logits.scatter_(1, predictions[:, None], 1.0)


class TracedDraft(TracedRunner):
    """A draft that says, too, how sure it is of its tokens, as its free runs have it; it drafts in one call.

    ``start`` is the number of tokens before position 0 of these runs.
    """

    def __init__(
        self,
        predictions: Sequence[int],
        free_runs: Sequence[FreeRun],
        *,
        start: int,
        vocab_size: int,
        max_positions: int,
    ) -> None:
        super().__init__(predictions, vocab_size=vocab_size, max_positions=max_positions)
        self._free_runs = free_runs
        self._starts = [start + run.start for run in free_runs]  # counted from the first token of all

    def draft_until(
        self, ids: Sequence[int], cache: Cache, num: int, num_ids: int, stop: StopCriterion, drawing: Drawing
    ) -> tuple[list[int], list[float], list[Tensor]]:
        """Append T tokens and draft on until ``stop`` ends it: see `AdaptiveDrafter.draft_until`.

        What is said after a first mistake are any ids; how sure the draft was of its own is true.
        """
        assert isinstance(cache, _Length), "a cache of another runner"
        first = cache.length + len(ids)
        signals: Sequence[float] = [0.0] * num
        if stop.signal != "none":
            signals = self._signals(stop.signal, first, num)
        num_drafted = _num_drafted(stop, signals)
        cache.length = first + num_drafted - 1
        drafted: list[int] = self._predictions[first - 1 : cache.length].tolist()
        return drafted, list(signals[:num_drafted]), []

    def _signals(self, kind: str, position: int, num: int) -> Sequence[float]:
        """Return the signals of up to ``num`` tokens that the draft goes on with from a position on.

        ``kind`` is as for `token_signal`. They end where the run was ended.
        """
        number = bisect_right(self._starts, position) - 1
        run, offset = self._free_runs[number], position - self._starts[number]
        if kind == "confidence":
            return run.confidences_from(offset, num)
        entropies = run.entropies_from(offset, num)
        return [acceptance_bound(nats) for nats in entropies] if kind == "bound" else entropies


def _num_drafted(stop: StopCriterion, signals: Sequence[float]) -> int:
    measure = stop.before
    for num, signal in enumerate(signals, 1):
        measure = measured(stop, measure, signal)
        if not goes_on(stop, num, measure):
            return num
    return len(signals)


def target_runner(record: TraceRecord, vocab_size: int, longest: int) -> TracedRunner:
    """Return the target: it says the trace's text. ``longest`` is how many tokens a draft may have."""
    text = (*record.prompt_ids, *record.output_ids)
    return TracedRunner(text[1:], vocab_size=vocab_size, max_positions=len(text) + longest)


def draft_runners(record: TraceRecord, vocab_size: int, longest: int) -> Mapping[str, TracedDraft]:
    """Return the drafts: each says the text's next token where the trace says that it did, and another elsewhere."""
    return {name: _draft_runner(record, name, vocab_size, longest) for name in record.accepted}


def _draft_runner(record: TraceRecord, name: str, vocab_size: int, longest: int) -> TracedDraft:
    prompt, text = record.prompt_ids, record.output_ids
    agrees = [run > 0 for run in record.accepted[name]]
    said = [token if right else (token + 1) % vocab_size for token, right in zip(text, agrees, strict=True)]
    num_read = sum(entropy is not None for entropy in record.entropies[name])
    whole = num_read == len(text)  # else its context, or its vocabulary, ended before the text did
    return TracedDraft(
        (*prompt[1:], *said),
        () if record.free_runs is None else record.free_runs[name],
        start=len(prompt),
        vocab_size=vocab_size,
        max_positions=len(prompt) + (len(text) + longest if whole else num_read - 1),
    )
