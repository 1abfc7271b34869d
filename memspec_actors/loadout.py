"""Open and check all that an engine's configuration names: models, tokenizer, predictor. Blocking; loads no draft."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memspec_actors.config import Config, DraftConfig, zoo_name
from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.hub import hub_model, snapshot
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import HOST, Device
from memspec_actors.models.devices.opening import open_device
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.models.runner import Runner
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.text.vocabulary import check_compatible
from memspec_actors.models.weights.device_room import check_room
from memspec_actors.models.weights.opening import load_runner
from memspec_actors.models.weights.plan import ALIGNMENT, LoadPlan
from memspec_actors.paths import expanded
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.zoo import path as zoo_path

__all__ = ["Loadout", "model_directory", "open_predictor"]

_LOGGER = logging.getLogger(__name__)


def model_directory(model: str) -> Path:
    """Return the directory of a model given as a path, ``zoo``, ``zoo:NAME`` or an id on the Hugging Face hub.

    A model of the hub that is not in its cache yet is fetched. Raises UsageError if that cannot be.
    """
    name, on_hub = zoo_name(model), hub_model(model)
    if name is not None:
        return zoo_path(name)
    path = expanded(model)
    return snapshot(on_hub) if on_hub is not None and not path.exists() else path


@dataclass(frozen=True, kw_only=True)
class Loadout:
    """Hold the models of an engine: the target loaded, each draft as a plan of how to load it.

    All run on ``device``. ``weight_format`` says what the target's weights are held in. ``num_ids`` is the number of
    ids that the target may emit, but for ``gap_ids``; ``num_common[draft]`` how many of them a draft shares.
    """

    device: Device
    checkpoint: Checkpoint
    target: Runner
    weight_format: str
    tokenizer: Tokenizer
    num_ids: int
    gap_ids: tuple[int, ...]
    plans: Mapping[str, LoadPlan]
    num_common: Mapping[str, int]
    capacity: int
    budget_bytes: int

    @classmethod
    def open(cls, config: Config) -> "Loadout":
        """Open all models.

        Raises CheckpointError, IncompatibleDraft or ConfigError, naming the draft, the file and what is wrong.
        """
        device = open_device(config.target.device)
        on_device = device is not HOST
        directory = model_directory(config.target.model)
        checkpoint = Checkpoint.open(directory)
        tokenizer = Tokenizer.open(directory)
        drafts = {draft.name: _open_draft(draft, config.target.dtype, checkpoint, on_device) for draft in config.drafts}
        plans = {name: plan for name, (plan, _) in drafts.items()}
        plan = LoadPlan.of(checkpoint, config.target.dtype, private=True, on_device=on_device)
        budget_bytes, capacity = _budget(config, plans), config.memory.capacity
        check_room(device, plan, plans.values(), budget_bytes, capacity)
        return cls(
            device=device,
            checkpoint=checkpoint,
            target=load_runner(plan, device),
            weight_format=plan.weight_format,
            tokenizer=tokenizer,
            num_ids=min(tokenizer.num_ids, checkpoint.vocab_size),
            gap_ids=tokenizer.gap_ids,
            plans=plans,
            num_common={name: num_common for name, (_, num_common) in drafts.items()},
            capacity=capacity,
            budget_bytes=budget_bytes,
        )


def open_predictor(config: Config, loadout: Loadout) -> Ranker:
    """Open the configured predictor for the drafts there are. Raises ConfigError if none is configured."""
    from memspec_actors.predictor.ranker import PredictorRanker, predictor_directory

    return PredictorRanker.open(predictor_directory(config.predictor.path), tuple(loadout.plans), loadout.tokenizer)


def _open_draft(
    draft: DraftConfig, target_dtype: DtypeName, target: Checkpoint, on_device: bool
) -> tuple[LoadPlan, int]:
    """Return how a draft is to be loaded, and how many ids it shares with the target. Raises an error naming it."""
    try:
        checkpoint = Checkpoint.open(model_directory(draft.model))
        num_common = check_compatible(target, checkpoint).num_common
        plan = LoadPlan.of(checkpoint, draft.dtype or target_dtype, on_device=on_device)
    except UsageError as error:
        raise type(error)(f"draft {draft.name!r}: {error}") from error
    _note_context(draft.name, checkpoint, target)
    return plan, num_common


def _note_context(draft: str, checkpoint: Checkpoint, target: Checkpoint) -> None:
    if checkpoint.max_positions < target.max_positions:
        _LOGGER.warning(
            "draft %r has a context of %d tokens, the target one of %d: beyond its own it does not draft",
            draft,
            checkpoint.max_positions,
            target.max_positions,
        )


def _budget(config: Config, plans: Mapping[str, LoadPlan]) -> int:
    """Return the arena's size: the given budget, or room for any ``capacity`` of the drafts."""
    sizes = sorted((plan.nbytes for plan in plans.values()), reverse=True)
    budget = config.memory.budget_bytes
    if budget is None or not sizes:
        return max(ALIGNMENT, sum(sizes[: config.memory.capacity]))
    name, largest = max(((name, plan.nbytes) for name, plan in plans.items()), key=lambda pair: pair[1])
    if budget // ALIGNMENT * ALIGNMENT < largest:
        raise ConfigError(
            f"[memory] budget is {budget} bytes; draft {name!r} needs {largest}: give more, or leave the draft out"
        )
    return budget // ALIGNMENT * ALIGNMENT
