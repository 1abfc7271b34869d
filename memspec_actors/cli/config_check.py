"""Check what a configuration names: rules and policies that exist and have what they need, models that are there."""

from pathlib import Path

from memspec_actors.admission import check_predictor
from memspec_actors.config import Config
from memspec_actors.errors import ConfigError
from memspec_actors.hub import HubModel, cached_snapshot, hub_model
from memspec_actors.loadout import model_directory
from memspec_actors.methods import choose, decoding_alone
from memspec_actors.models.devices.opening import open_device
from memspec_actors.scheduling.plan_choice import PlanFile
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule

__all__ = ["check_config"]


def check_config(config: Config) -> None:
    """Raise the first error that opening an engine with ``config`` would run into, short of reading weights."""
    decoding_alone(config)
    choice = choose(config)
    names = [draft.name for draft in config.drafts]
    policy = parse_policy(choice.policy, names)
    PlanFile(config.schedule.plan, names).check(policy)
    check_predictor(policy, config.predictor)
    stop_rule(choice.stop)
    acceptance_rule(choice.accept, greedy=choice.accept == "exact")
    open_device(config.target.device)
    _check_model("[target] model", config.target.model)
    for draft in config.drafts:
        _check_model(f"[[drafts]] {draft.name} model", draft.model)
    if config.predictor.path not in (None, "zoo"):
        _check_directory("[predictor] path", Path(config.predictor.path), "encoder and head")
    if config.events.path is not None and not Path(config.events.path).parent.is_dir():
        raise ConfigError(f"[events] path is {config.events.path!r}; its directory does not exist: create it")


def _check_model(key: str, model: str) -> None:
    on_hub = hub_model(model)
    if on_hub is not None and not Path(model).exists():
        _check_cached(key, on_hub)
        return
    directory = model_directory(model)
    _check_directory(key, directory, "a Hugging Face model")
    if not (directory / "config.json").is_file():
        raise ConfigError(f"{key} is {model!r}; the directory has no config.json: give a Hugging Face model directory")


def _check_cached(key: str, model: HubModel) -> None:
    """Look into the cache only: a check fetches nothing."""
    if cached_snapshot(model) is None:
        raise ConfigError(
            f"{key} is {str(model)!r}, which is no directory and not in the Hugging Face cache yet; "
            f"if it is a model of the hub, run `hf download {model.repo}`"
        )


def _check_directory(key: str, directory: Path, holds: str) -> None:
    if not directory.is_dir():
        raise ConfigError(f"{key} is {str(directory)!r}, which is no directory; it must be one with {holds}")
