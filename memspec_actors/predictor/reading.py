"""Exact traces of one text: the target writes it greedily, every draft reads along."""

from collections.abc import Mapping, Sequence
from time import perf_counter_ns

import msgspec
import torch

from memspec_actors.models.runner import Cache, Runner
from memspec_actors.predictor.emittable import emittable
from memspec_actors.predictor.free_runs import FreeRunner
from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import FreeRun, TraceRecord

__all__ = ["ReadingDraft", "Tracer"]

NEAR_TIE = 1e-3  # logits
READ_EVERY = 16  # tokens of text between two readings by the drafts that are not at work
RECENT = 32  # tokens by which the draft to work with is chosen


class ReadingDraft:
    """A draft reading a text: what it predicts after every token, having read the true text before.

    ``num_common`` is the number of ids that it shares with the target; it never predicts one of ``gap_ids``. A draft
    whose context ends before the text does, or that meets an id it does not know, predicts nothing beyond.
    """

    def __init__(self, runner: Runner, num_common: int, max_tokens: int, gap_ids: tuple[int, ...] = ()) -> None:
        self._runner = runner
        self._num_common = num_common
        self._gap_ids = gap_ids
        self._cache: Cache = runner.new_cache(min(max_tokens, runner.max_positions))
        self._predictions: list[int] = []  # the one at index i is for token i + 1
        self._entropies: list[float] = []
        self._end = runner.max_positions

    @torch.inference_mode()
    def read(self, tokens: Sequence[int]) -> None:
        """Read what is new in ``tokens``, in one pass."""
        new = tokens[self._cache.length : self._end]
        unknown = next((index for index, token in enumerate(new) if token >= self._num_common), None)
        if unknown is not None:
            self._end = self._cache.length + unknown
            new = new[:unknown]
        if new:
            logits = emittable(self._runner.forward(new, self._cache), self._num_common, self._gap_ids)
            self._predictions += logits.argmax(-1).tolist()
            self._entropies += _entropies(logits)

    @torch.inference_mode()
    def propose(self, tokens: Sequence[int], length: int) -> list[int]:
        """Continue ``tokens`` greedily by ``length`` tokens, or as many as fit; only ``tokens`` stay read."""
        self.read(tokens)
        read = self._cache.length
        if read < len(tokens):
            return []
        length = min(length, self._runner.max_positions - read)
        ids = self._predictions[-1:]
        while 0 < len(ids) < length:
            logits = self._runner.forward(ids[-1:], self._cache, logits_to_keep=1)
            ids.append(int(emittable(logits, self._num_common, self._gap_ids)[-1].argmax()))
        self._cache.truncate(read)
        return ids[:length]

    def agreements(self, tokens: Sequence[int], start: int) -> list[bool]:
        """Tell for every token from ``start`` on whether it was predicted; those not read up to count as not."""
        predictions = self._predictions[start - 1 : len(tokens) - 1]
        missing = len(tokens) - start - len(predictions)
        return [a == b for a, b in zip(predictions, tokens[start:], strict=False)] + [False] * missing

    def free_runs(self, tokens: Sequence[int], start: int, room: int) -> tuple[FreeRun, ...]:
        """Run on freely along ``tokens``, all of which were read, from ``start`` on: see `FreeRunner.runs`."""
        predicted = self._predictions[start - 1 : len(tokens) - 1]
        return FreeRunner(self._runner, self._num_common, self._gap_ids).runs(tokens, start, predicted, room)

    def entropies(self, tokens: Sequence[int], start: int) -> tuple[float | None, ...]:
        """Give the entropy of the prediction of every token from ``start`` on, None for those not read up to."""
        known = self._entropies[start - 1 : len(tokens) - 1]
        return (*known, *[None] * (len(tokens) - start - len(known)))


class Tracer(msgspec.Struct, frozen=True, kw_only=True):
    """Trace prompts with a target and its drafts (runner, ids shared with the target).

    The target's greedy text comes from lossless speculative decoding with whichever draft agreed most lately, so its
    tokens are those of the engine. Only ids below ``num_ids`` are written, without ``gap_ids``; a text ends with an id
    of ``eos_ids``. ``free_runs`` asks for those too, which takes about four times as long.
    """

    target: Runner
    drafts: Mapping[str, tuple[Runner, int]]
    num_ids: int
    eos_ids: frozenset[int]
    k: int
    gap_ids: tuple[int, ...] = ()
    free_runs: bool = False

    @torch.inference_mode()
    def trace(self, prompt_ids: Sequence[int], max_new_tokens: int, kind: str = "") -> tuple[TraceRecord, list[float]]:
        """Trace one prompt; also give the microseconds that each draft-and-verify iteration took."""
        tokens, start = list(prompt_ids), len(prompt_ids)
        room = min(start + max_new_tokens, self.target.max_positions)
        readers = {name: ReadingDraft(runner, ids, room, self.gap_ids) for name, (runner, ids) in self.drafts.items()}
        cache = self.target.new_cache(room)
        logits = emittable(self.target.forward(tokens, cache, logits_to_keep=1), self.num_ids, self.gap_ids)
        near_ties = _near_ties(logits)
        tokens.append(int(logits[-1].argmax()))
        iteration_us: list[float] = []
        working, read_at = "", 0
        while tokens[-1] not in self.eos_ids and len(tokens) < room:
            if len(tokens) - read_at >= READ_EVERY or not working:
                working, read_at = self._choose(readers, tokens, start), len(tokens)
            began = perf_counter_ns()
            drafted = readers[working].propose(tokens, min(self.k, room - len(tokens) - 1))
            logits = emittable(self.target.forward([tokens[-1], *drafted], cache), self.num_ids, self.gap_ids)
            new = _accept(drafted, logits.argmax(-1).tolist(), self.eos_ids)
            iteration_us.append((perf_counter_ns() - began) / 1e3)
            near_ties += _near_ties(logits[: len(new)])
            tokens += new
            cache.truncate(min(cache.length, len(tokens) - 1))
        self._choose(readers, tokens, start)
        runs = {name: accepted_runs(reader.agreements(tokens, start), self.k) for name, reader in readers.items()}
        record = TraceRecord(
            prompt_ids=tuple(prompt_ids),
            output_ids=tuple(tokens[start:]),
            accepted=runs,
            entropies={name: reader.entropies(tokens, start) for name, reader in readers.items()},
            kind=kind,
            near_ties=near_ties,
            free_runs={name: reader.free_runs(tokens, start, room) for name, reader in readers.items()}
            if self.free_runs
            else None,
        )
        return record, iteration_us

    @staticmethod
    def _choose(readers: Mapping[str, ReadingDraft], tokens: Sequence[int], start: int) -> str:
        """Let every draft read on; give the one that predicted most of the last tokens."""
        for reader in readers.values():
            reader.read(tokens)
        since = max(start, len(tokens) - RECENT)
        return max(readers, key=lambda name: sum(readers[name].agreements(tokens, since)))


def _accept(drafted: Sequence[int], chosen: Sequence[int], eos_ids: frozenset[int]) -> list[int]:
    """Give the committed tokens: drafted ones that the target chose too, then its own choice; none after an end."""
    new: list[int] = []
    for token, proposed in zip(chosen, [*drafted, None], strict=True):
        new.append(token)
        if token != proposed or token in eos_ids:
            break
    return new


def _entropies(logits: torch.Tensor) -> list[float]:
    """Give the entropies (T,) in nats of the distributions behind logits (T, V), in steps of 0.001."""
    logs = logits.float().log_softmax(-1)
    return [round(entropy, 3) for entropy in (-logs.exp() * logs).nansum(-1).tolist()]


def _near_ties(logits: torch.Tensor) -> int:
    best = logits.topk(2, dim=-1).values
    return int((best[:, 0] - best[:, 1] < NEAR_TIE).sum())
