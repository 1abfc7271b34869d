"""What decoding tells the rankers: one record per iteration."""

import msgspec

__all__ = ["Feedback", "Shadow"]


class Shadow(msgspec.Struct, frozen=True):
    """Tell at which tokens a draft that read along would have been right.

    ``agrees[i]`` says whether ``draft``, having read the true text before, predicts the generated token number
    ``start + i``. So an iteration with it from token t would have got as many tokens accepted as agree from t on in a
    row, cut at the draft length (greedy decoding; an estimate when sampling).
    """

    draft: str
    start: int
    agrees: tuple[bool, ...]


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how one iteration went.

    ``iteration`` counts from 0 within the request; ``start`` tokens had been generated before it. ``draft`` is the one
    that ran; None is a plain target step. ``emitted`` are all tokens that the iteration added, ``cost_us`` the time it
    took, ``catch_up_us`` included and waits left out. ``shadows`` are of the drafts that were brought up to date since
    the iteration before.
    """

    iteration: int
    start: int
    draft: str | None
    drafted: int
    accepted: int
    emitted: int
    cost_us: float
    catch_up_us: float = 0.0
    shadows: tuple[Shadow, ...] = ()

    @property
    def run_us(self) -> float:
        """The time that drafting and verifying took."""
        return self.cost_us - self.catch_up_us
