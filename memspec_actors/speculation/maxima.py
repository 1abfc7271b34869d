"""The largest logit of every position."""

import numpy as np
import torch
from torch import Tensor

__all__ = ["maxima"]


def maxima(logits: Tensor) -> tuple[list[int], list[float]]:
    """Return where the largest number of each row (T, V) is, and that number; NaN is larger than any.

    Of equals the first counts. On the CPU torch looks at one number after the other, numpy at many at once.
    """
    if logits.dtype != torch.float32 or logits.device.type != "cpu":
        best, where = logits.max(dim=-1)
        return where.tolist(), best.tolist()
    rows = logits.numpy()
    ids = rows.argmax(-1)
    return ids.tolist(), np.take_along_axis(rows, ids[:, None], -1)[:, 0].tolist()
