"""A second copy of a weight, in the order that is fastest for a block of rows.

On a CPU in float32 the two differ. One row is fastest as a plain product with the weight as (in, out). A block of rows
runs a third faster through oneDNN with a weight it has rearranged for itself on some processors (an AMD EPYC), and
slower on others (Intel Xeons, whose own library makes the plain product), so that is measured. It costs a second copy:
only the target, whose memory is its own, has it.
"""

import functools
import time

import torch
from torch import Tensor

from memspec_actors.models.kernels.linear import WeightPart, map_part

__all__ = ["MIN_PACKED_ITEMS", "pack", "packing_pays"]

MIN_PACKED_ITEMS = 1 << 18  # below, what a oneDNN call costs by itself outweighs what it saves
PACKED_ROWS = 16  # oneDNN arranges for a row count; this one served 2 to 200 rows best
TRIAL_ROWS, TRIAL_SIZE, TRIAL_ROUNDS = 6, 512, 15
CLEAR_GAIN = 1.1  # below, a second copy of the weights is not worth its memory


@functools.cache
def packing_pays() -> bool:
    """Tell whether blocks of rows run clearly faster on oneDNN's copy here; tried out once in a process (1 ms)."""
    plain = WeightPart(torch.ones(TRIAL_SIZE, TRIAL_SIZE))
    packed = pack(plain)
    rows = torch.ones(TRIAL_ROWS, TRIAL_SIZE)
    return packed.packed is not None and _least_s(plain, rows) > CLEAR_GAIN * _least_s(packed, rows)


def _least_s(part: WeightPart, rows: Tensor) -> float:
    """Return the least processor time of this thread that mapping the rows took."""
    times = []
    for _ in range(TRIAL_ROUNDS):
        began = time.thread_time()
        map_part(part, rows)
        times.append(time.thread_time() - began)
    return min(times)


def pack(part: WeightPart) -> WeightPart:
    """Add oneDNN's own copy of a weight of floats, or return the part as it is where that does not work.

    The operators are not public, so their result is compared with a plain product before they are trusted.
    """
    if part.weight.dtype != torch.float32 or part.weight.numel() < MIN_PACKED_ITEMS:
        return part
    try:
        candidate = part._replace(packed=torch.ops.mkldnn._reorder_linear_weight(part.weight.t(), PACKED_ROWS))
        rows = torch.linspace(-1, 1, 2 * part.weight.shape[0]).view(2, -1)
        agrees = torch.allclose(map_part(candidate, rows), map_part(part, rows), rtol=1e-4, atol=1e-4)
    except (AttributeError, RuntimeError, TypeError):
        return part
    return candidate if agrees else part
