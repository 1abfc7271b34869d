"""Log-probabilities of emitted tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from memspec_actors.protocols.results import TokenLogprob

__all__ = ["token_logprobs"]


def token_logprobs(logits: Tensor, ids: Sequence[int], num_top: int) -> tuple[TokenLogprob, ...]:
    """Return the log-softmax of each of T tokens in its row of (T, V) logits, and the ``num_top`` largest there."""
    logprobs = torch.log_softmax(logits[: len(ids)].float(), dim=-1)
    top = logprobs.topk(min(num_top, logprobs.shape[-1]), dim=-1)
    own = logprobs[torch.arange(len(ids)), torch.tensor(ids, dtype=torch.long)]
    return tuple(
        TokenLogprob(token_id, logprob, tuple(zip(best, values, strict=True)))
        for token_id, logprob, best, values in zip(
            ids, own.tolist(), top.indices.tolist(), top.values.tolist(), strict=True
        )
    )
