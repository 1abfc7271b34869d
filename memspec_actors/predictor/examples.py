"""Training and evaluation examples from traces: contexts with what the drafts are worth there."""

import hashlib
from collections.abc import Sequence

import msgspec
import numpy as np
import torch
from torch import Tensor

from memspec_actors.predictor.context import Context, batch_contexts
from memspec_actors.predictor.encoder import BertEncoder
from memspec_actors.predictor.head import InputKind
from memspec_actors.predictor.ranker import ContextReader
from memspec_actors.predictor.utility import Utility, UtilityParams, utility
from memspec_actors.protocols.traces import TraceRecord

__all__ = ["Point", "context_of", "encode_all", "prompt_hash", "scheduling_points", "training_points"]

ENCODE_BATCH = 64


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduling point of a trace: the text so far, and the figures of every draft from here on."""

    prompt_ids: tuple[int, ...]
    recent_ids: tuple[int, ...]
    kind: str
    value: tuple[float, ...]  # utility U per draft
    now: tuple[float, ...]  # soft targets per draft: which one to work with,
    coming: tuple[float, ...]  # and which one comes next, all 0 if none does
    labels: frozenset[int]  # the drafts of highest utility

    def speaks_for(self, draft: int) -> bool:
        """Tell whether a draft is the best here, or likelier to be needed than on average: a head would learn of it."""
        return draft in self.labels or max(self.now[draft], self.coming[draft]) * len(self.now) > 1.0


def prompt_hash(prompt_ids: Sequence[int]) -> str:
    """Identify a prompt by its ids."""
    return hashlib.sha256(" ".join(map(str, prompt_ids)).encode()).hexdigest()[:16]


def scheduling_points(record: TraceRecord, params: UtilityParams) -> list[Point]:
    """Give the points at which intervals begin if the best draft always runs; the first has no recent tokens."""
    worth = utility(record, params)
    positions = worth.scheduling_points()
    return [_point(record, worth, position, first=index == 0) for index, position in enumerate(positions)]


def training_points(record: TraceRecord, params: UtilityParams, stride: int, rng: np.random.Generator) -> list[Point]:
    """Give the first point, and points about every ``stride`` tokens wherever intervals might begin."""
    worth = utility(record, params)
    length = len(record.output_ids)
    if length < 2:
        return []
    positions = range(1 + int(rng.integers(stride)), length, stride)
    return [_point(record, worth, 1, first=True), *(_point(record, worth, p, first=False) for p in positions)]


def context_of(point: Point, kind: InputKind, reader: ContextReader) -> Context:
    """Show the encoder a point's prompt, its recent tokens, or both."""
    prompt = () if kind == "recent" else point.prompt_ids
    recent = () if kind == "prompt" else point.recent_ids
    return reader.read(prompt, recent)


@torch.inference_mode()
def encode_all(encoder: BertEncoder, contexts: Sequence[Context]) -> Tensor:
    """Encode many contexts, those of like length together; rows (N, H) in the order given."""
    order = sorted(range(len(contexts)), key=lambda index: len(contexts[index][0]))
    states = torch.cat(
        [
            _encode(encoder, [contexts[index] for index in order[start : start + ENCODE_BATCH]])
            for start in range(0, len(order), ENCODE_BATCH)
        ]
    )
    inverse = torch.empty(len(order), dtype=torch.long)
    inverse[torch.tensor(order)] = torch.arange(len(order))
    return states[inverse].clone()


def _point(record: TraceRecord, worth: Utility, position: int, *, first: bool) -> Point:
    return Point(
        prompt_ids=record.prompt_ids,
        recent_ids=() if first else record.output_ids[:position],
        kind=record.kind,
        value=tuple(worth.value[:, position].tolist()),
        now=tuple(worth.now[:, position].tolist()),
        coming=tuple(worth.coming[:, position].tolist()),
        labels=frozenset(worth.labels(position)),
    )


def _encode(encoder: BertEncoder, contexts: Sequence[Context]) -> Tensor:
    batch = batch_contexts(contexts, encoder.config.pad_token_id)
    return encoder.first_state(batch.ids, batch.token_types, batch.mask)
