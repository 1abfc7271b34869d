"""What decoding tells the rankers: one record per iteration."""

import msgspec

__all__ = ["Feedback"]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how one iteration went.

    ``iteration`` counts from 0 within the request. ``draft`` is the one that ran; None is a plain target step.
    ``emitted`` are all tokens that the iteration added, ``cost_us`` the time it took, catch-up included, waits not.
    """

    iteration: int
    draft: str | None
    drafted: int
    accepted: int
    emitted: int
    cost_us: float
