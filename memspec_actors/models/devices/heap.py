"""Give memory that was freed back to the operating system."""

import ctypes
from functools import cache
from typing import Any

__all__ = ["give_back_freed"]


def give_back_freed() -> None:
    """Let the C library give back what has been freed, where it can be told to: glibc keeps pieces up to 32 MiB."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # no glibc
        return None
