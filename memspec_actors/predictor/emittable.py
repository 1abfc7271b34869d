"""The part of a model's logits that text is written with."""

from torch import Tensor, inf, tensor

__all__ = ["emittable"]


def emittable(logits: Tensor, num_ids: int, gap_ids: tuple[int, ...]) -> Tensor:
    """Cut logits (T, V) to the ids that can be written (T, num_ids); ``gap_ids`` among them get -inf."""
    logits = logits[:, :num_ids]
    gaps = [each for each in gap_ids if each < num_ids]
    return logits.index_fill(1, tensor(gaps), -inf) if gaps else logits
