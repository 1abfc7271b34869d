"""How uncertain a distribution is, and how far two are apart."""

import torch
from torch import Tensor

__all__ = ["entropy", "js_distances"]

RESOLUTION = torch.finfo(torch.float32).eps  # divergences that float32 probabilities cannot tell from 0, or from 1
TINY = torch.finfo(torch.float32).tiny


def entropy(probs: Tensor, tiny: float = TINY) -> float:
    """Return the Shannon entropy of a distribution (V,) in nats; 0 log 0 is 0. TorchScript as well as Python."""
    return -float(torch.dot(probs, probs.clamp_min(tiny).log_()))


def js_distances(p: Tensor, q: Tensor) -> list[float]:
    """Return the Jensen-Shannon distance of each row of ``p`` (T, V) to the same row of ``q`` (T, V).

    The square root of the divergence in bits, so in [0, 1]: H(m) - (H(p) + H(q)) / 2 with m = (p + q) / 2. Rows need
    not sum to 1. What differs from 0 or from 1 by no more than float32's rounding is exactly 0 or 1.
    """
    p, q = _normalised(p), _normalised(q)
    logs = torch.empty_like(p)  # one buffer for all: large ones are slow to come by
    nats = (_negative_entropies(p, logs) + _negative_entropies(q, logs)) * 0.5
    nats -= _negative_entropies(p.add_(q).mul_(0.5), logs)
    bits = nats / torch.log(torch.tensor(2.0, dtype=torch.float64))
    bits[bits < RESOLUTION] = 0.0
    bits[bits > 1.0 - RESOLUTION] = 1.0
    distances: list[float] = bits.sqrt_().tolist()
    return distances


def _normalised(rows: Tensor) -> Tensor:
    rows = rows.double()
    return rows / rows.sum(dim=-1, keepdim=True)


def _negative_entropies(p: Tensor, logs: Tensor) -> Tensor:
    torch.clamp_min(p, TINY, out=logs).log_()
    sums: Tensor = torch.linalg.vecdot(p, logs)
    return sums
