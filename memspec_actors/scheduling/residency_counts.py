"""How often drafts came into memory and left it, and what for."""

import msgspec

__all__ = ["ResidencyCounts"]


class ResidencyCounts(msgspec.Struct, kw_only=True):
    """Count loads by outcome (``loads`` finished) and drafts freed.

    A prefetch is useful once its draft was activated, and wasted if it was freed before that.
    """

    loads: int = 0
    failures: int = 0
    cancellations: int = 0
    evictions: int = 0
    useful: int = 0
    wasted: int = 0
