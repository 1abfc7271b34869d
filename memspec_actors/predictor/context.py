"""How a scheduling point becomes what the encoder reads."""

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

__all__ = ["Batch", "Context", "ContextLayout", "batch_contexts"]

Context = tuple[list[int], list[int]]  # ids and token types of one sequence


class ContextLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lay out ``[CLS] recent [SEP] prompt [SEP]``: a BERT pair, the recent tokens first so that they stay in place.

    At most ``recent_tokens`` of the recent tokens (the last ones) and ``max_tokens`` ids in all are read; a longer
    prompt loses its beginning. Ids of ``vocab_size`` and beyond mean nothing to the encoder and are left out.
    """

    cls_id: int
    sep_id: int
    vocab_size: int
    max_tokens: int
    recent_tokens: int = 64

    def arrange(self, prompt_ids: Sequence[int], recent_ids: Sequence[int]) -> Context:
        """Give the ids and token types (0 for the recent part, 1 for the prompt) of one context."""
        recent = self._known(recent_ids[-self.recent_tokens :])
        room = self.max_tokens - len(recent) - 3
        prompt = self._known(prompt_ids[-room:])
        ids = [self.cls_id, *recent, self.sep_id, *prompt, self.sep_id]
        return ids, [0] * (len(recent) + 2) + [1] * (len(prompt) + 1)

    def _known(self, ids: Sequence[int]) -> list[int]:
        return [token for token in ids if 0 <= token < self.vocab_size]


class Batch(msgspec.Struct, frozen=True):
    """Contexts padded to one width; all (B, T), ``mask`` false on padding."""

    ids: Tensor
    token_types: Tensor
    mask: Tensor


def batch_contexts(contexts: Sequence[Context], pad_id: int) -> Batch:
    """Pad contexts on the right."""
    width = max(len(ids) for ids, _ in contexts)
    padded_ids = torch.tensor([ids + [pad_id] * (width - len(ids)) for ids, _ in contexts])
    padded_types = torch.tensor([types + [0] * (width - len(types)) for _, types in contexts])
    lengths = torch.tensor([len(ids) for ids, _ in contexts])
    return Batch(padded_ids, padded_types, torch.arange(width) < lengths[:, None])
