"""Notice that a trace is of other weights than those it is used for: what comes of it then holds for other models."""

import logging
from collections.abc import Mapping
from pathlib import Path

from memspec_actors.predictor.head import HeadFile
from memspec_actors.protocols.traces import TraceHeader

__all__ = ["note_other_weights", "note_untrained_weights"]

_LOGGER = logging.getLogger(__name__)


def note_other_weights(header: TraceHeader, target: str | None, drafts: Mapping[str, str | None], than: str) -> None:
    """Log a warning, naming the models, if a trace is of weights with other hashes than these.

    What only one side knows is not compared. ``than`` says whose hashes these are, and what to do.
    """
    models = ["the target"] if target not in (None, header.target) else []
    models += [
        f"draft {name!r}"
        for name, digest in drafts.items()
        if digest is not None and digest != header.drafts.get(name, digest)
    ]
    if models:
        _LOGGER.warning("the trace is of other weights of %s than %s", ", ".join(models), than)


def note_untrained_weights(header: TraceHeader, file: HeadFile, directory: Path) -> None:
    """Log a warning if a trace is of other weights than those that the predictor in ``directory`` was trained for."""
    trained_for = file.provenance
    note_other_weights(
        header,
        trained_for.get("target"),
        trained_for.get("drafts", {}),
        f"the predictor {directory} was trained for: train it on a trace of these, or collect this one again",
    )
