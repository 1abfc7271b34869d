"""The predictor: a frozen context encoder with a trained ranking head, exact traces, training and evaluation."""

from pathlib import Path
from typing import Any

from memspec_actors.progress import Progress

__all__ = ["build_for_zoo"]


def build_for_zoo(weights_dir: str | Path, progress: Progress | None = None) -> dict[str, Any]:
    """Make ``weights_dir/encoder`` for the embedded target and drafts beside it; return its evaluation."""
    from memspec_actors.predictor.build import build_for_zoo as build  # imports torch

    return build(weights_dir, progress)
