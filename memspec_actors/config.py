"""What an engine is built from: ``memspec.toml``, or the same as Python objects; by default the embedded models."""

from pathlib import Path
from typing import Self

import msgspec
import tomli_w

from memspec_actors import config_file
from memspec_actors.config_sections import (
    DraftConfig,
    EventsConfig,
    MemoryConfig,
    PredictorConfig,
    ScheduleConfig,
    Section,
    ServeConfig,
    SpeculationConfig,
    StorageConfig,
    TargetConfig,
    require,
    zoo_name,
)
from memspec_actors.errors import ConfigError
from memspec_actors.hub import hub_model
from memspec_actors.paths import expanded

__all__ = [
    "ZOO_DRAFTS",
    "Config",
    "DraftConfig",
    "EventsConfig",
    "MemoryConfig",
    "PredictorConfig",
    "ScheduleConfig",
    "ServeConfig",
    "SpeculationConfig",
    "StorageConfig",
    "TargetConfig",
    "zoo_name",
]

ZOO_DRAFTS = tuple(DraftConfig(name=name) for name in ("general", "code", "math", "law", "medical"))


class Config(Section, frozen=True, kw_only=True):
    """Describe an engine completely. ``drafts`` default to the embedded five, or to none beside a target by path."""

    target: TargetConfig = TargetConfig()
    drafts: tuple[DraftConfig, ...] = ZOO_DRAFTS
    memory: MemoryConfig = MemoryConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    speculation: SpeculationConfig = SpeculationConfig()
    predictor: PredictorConfig = PredictorConfig()
    storage: StorageConfig = StorageConfig()
    events: EventsConfig = EventsConfig()
    serve: ServeConfig = ServeConfig()

    def __post_init__(self) -> None:
        embedded = zoo_name(self.target.model) is not None
        if not embedded and self.drafts is ZOO_DRAFTS:
            msgspec.structs.force_setattr(self, "drafts", ())
        if self.predictor.path == "auto":
            msgspec.structs.force_setattr(self, "predictor", PredictorConfig(path="zoo" if embedded else None))
        names = [draft.name for draft in self.drafts]
        for name in names:
            require(names.count(name) == 1, "[[drafts]] name", name, "different in every entry")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file strictly; its relative paths are relative to the file.

        Raises ConfigError naming file, section and key: an unknown key (with the nearest known one), a value of the
        wrong type or out of range, a file that cannot be read.
        """
        path = Path(path)
        try:
            return config_file.decode(path, cls)._with_paths_from(path.absolute().parent)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def to_toml(self) -> str:
        """Write every key that has a value, defaults included, as TOML that loads back equal."""
        data = msgspec.to_builtins(self)
        data["predictor"]["path"] = self.predictor.path or "none"
        drafts = [_table("[[drafts]]", draft) for draft in data.pop("drafts")]
        sections = [_table(f"[{name}]", section) for name, section in data.items()]
        return "\n".join(([] if drafts else ["drafts = []\n"]) + sections[:1] + drafts + sections[1:])

    def _with_paths_from(self, base: Path) -> Self:
        replace = msgspec.structs.replace
        drafts = tuple(
            replace(draft, model=_located(draft.model, base, f"[[drafts]] {draft.name} model")) for draft in self.drafts
        )
        events = self.events
        if events.path is not None:
            events = replace(events, path=_absolute(events.path, base, "[events] path"))
        predictor = self.predictor
        if predictor.path is not None and zoo_name(predictor.path) is None:
            predictor = replace(predictor, path=_absolute(predictor.path, base, "[predictor] path"))
        schedule = self.schedule
        if schedule.plan is not None:
            schedule = replace(schedule, plan=_absolute(schedule.plan, base, "[schedule] plan"))
        serve = self.serve
        if serve.uds is not None:
            serve = replace(serve, uds=_absolute(serve.uds, base, "[serve] uds"))
        target = replace(self.target, model=_located(self.target.model, base, "[target] model"))
        return replace(
            self, target=target, drafts=drafts, schedule=schedule, predictor=predictor, events=events, serve=serve
        )


def _located(model: str, base: Path, key: str) -> str:
    """Make a path absolute; an id on the hub is one only where no such directory exists."""
    by_name = zoo_name(model) is not None or (hub_model(model) is not None and not (base / model).exists())
    return model if by_name else _absolute(model, base, key)


def _absolute(path: str, base: Path, key: str) -> str:
    try:
        return str(base / expanded(path))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


def _table(header: str, section: dict[str, object]) -> str:
    return f"{header}\n{tomli_w.dumps({key: value for key, value in section.items() if value is not None})}"
