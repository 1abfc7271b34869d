"""Measure storage rather than the memory that the operating system keeps of it."""

import os
from pathlib import Path

__all__ = ["forget_cached"]


def forget_cached(file: Path) -> None:
    """Let the operating system drop what it holds of a file in memory, where it can be told to."""
    if hasattr(os, "posix_fadvise"):
        with file.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
