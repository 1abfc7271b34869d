"""Compare the weights that a trace is of with those that are configured."""

from pathlib import Path

from memspec_actors.config import Config
from memspec_actors.errors import CheckpointError
from memspec_actors.hub import cached_snapshot, hub_model
from memspec_actors.loadout import model_directory
from memspec_actors.predictor.collect import weights_hash
from memspec_actors.predictor.other_weights import note_other_weights
from memspec_actors.predictor.traces import TraceReader

__all__ = ["note_unconfigured_weights"]


def note_unconfigured_weights(config: Config, traces: str | Path) -> None:
    """Log a warning if a trace is of other weights than the configured models have.

    Nothing is fetched for it: models that are not here are not compared. Raises TraceError if there is no such trace.
    """
    note_other_weights(
        TraceReader(traces).header,
        _hash_if_here(config.target.model),
        {draft.name: _hash_if_here(draft.model) for draft in config.drafts},
        "are configured: give the --config that it was collected with, or collect it again",
    )


def _hash_if_here(model: str) -> str | None:
    on_hub = hub_model(model)
    directory = model_directory(model) if on_hub is None or Path(model).exists() else cached_snapshot(on_hub)
    try:
        return None if directory is None else weights_hash(directory)
    except CheckpointError:
        return None
