"""How many processor cores there are to compute on."""

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
