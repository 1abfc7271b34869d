"""What an engine is built from: ``memspec.toml``, or the same as Python objects; by default the embedded models."""

import re
from pathlib import Path
from typing import Literal, Self

import msgspec
import tomli_w

from memspec_actors import config_file
from memspec_actors.cores import usable_cores
from memspec_actors.errors import ConfigError
from memspec_actors.hub import hub_model
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.paths import expanded
from memspec_actors.quantities import parse_bandwidth, parse_bytes

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

STOP, ACCEPT = "gain", "auto"  # the rules where nothing is said
_DRAFT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,2})?|mps")


def _require(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{key} is {value!r}; it must be {expected}")


def zoo_name(model: str) -> str | None:
    """Give the name of the embedded model that ``model`` means (``"zoo"``, ``"zoo:code"``), or None for any other."""
    if model == "zoo":
        return "target"
    return model.removeprefix("zoo:") if model.startswith("zoo:") else None


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: frozen, keyword only, unknown keys refused."""


class TargetConfig(_Section, frozen=True, kw_only=True):
    """``[target]``: the model whose text is generated.

    ``dtype`` is what models run in; "int8" and "int4" quantise their linear maps on loading, on the CPU only. Target
    and drafts live and run on ``device``; all else, the predictor too, on the CPU. ``threads`` are those of
    decoding; ``"auto"`` leaves one core to the rest. Ranking, loading and warming drafts each go on beside it with
    ``background_threads``.
    """

    model: str = "zoo"
    dtype: DtypeName = "float32"
    device: str = "cpu"
    threads: int | Literal["auto"] = 1
    background_threads: int = 1

    def __post_init__(self) -> None:
        _require(self.model != "", "[target] model", self.model, 'a model directory or "zoo"')
        _require(
            _DEVICE.fullmatch(self.device) is not None,
            "[target] device",
            self.device,
            '"cpu", "cuda", "cuda:N" or "mps"',
        )
        _require(
            self.threads == "auto" or self.threads >= 1, "[target] threads", self.threads, 'an integer >= 1 or "auto"'
        )
        expected = "an integer >= 1"
        _require(self.background_threads >= 1, "[target] background_threads", self.background_threads, expected)

    @property
    def num_threads(self) -> int:
        """Give the threads of decoding as a number."""
        return max(1, usable_cores() - 1) if self.threads == "auto" else self.threads


class DraftConfig(_Section, frozen=True, kw_only=True):
    """``[[drafts]]``: one draft model; without ``model`` it is the embedded one of that name.

    Without ``dtype`` it runs in the target's.
    """

    name: str
    model: str = ""
    dtype: DtypeName | None = None

    def __post_init__(self) -> None:
        expected = "made of letters, digits, dots, dashes and underscores"
        _require(_DRAFT_NAME.fullmatch(self.name) is not None, "[[drafts]] name", self.name, expected)
        if self.model in ("", "zoo"):
            msgspec.structs.force_setattr(self, "model", f"zoo:{self.name}")


class MemoryConfig(_Section, frozen=True, kw_only=True):
    """``[memory]``: room for drafts beside the target: ``capacity`` of them (K), or ``budget`` bytes, which win."""

    capacity: int = 2
    budget: str | int | None = None

    def __post_init__(self) -> None:
        _require(self.capacity >= 1, "[memory] capacity", self.capacity, "an integer >= 1")
        _ = self.budget_bytes

    @property
    def budget_bytes(self) -> int | None:
        """Give the budget in bytes; None means that ``capacity`` decides."""
        return None if self.budget is None else parse_bytes(self.budget, "[memory] budget")


class ScheduleConfig(_Section, frozen=True, kw_only=True):
    """``[schedule]``: a scheduling point every ``interval`` iterations (N), seeing ``recent_tokens`` tokens (T).

    ``plan`` is the file of plans that an oracle's policy follows.
    """

    policy: str = "memspec"
    interval: int = 4
    recent_tokens: int = 64
    prediction: Literal["overlapped", "inline"] = "overlapped"
    plan: str | None = None

    def __post_init__(self) -> None:
        _require(self.interval >= 1, "[schedule] interval", self.interval, "an integer >= 1")
        _require(self.recent_tokens >= 1, "[schedule] recent_tokens", self.recent_tokens, "an integer >= 1")


class SpeculationConfig(_Section, frozen=True, kw_only=True):
    """``[speculation]``: when to stop drafting and what to accept; the rules' names are checked by who applies them.

    ``method`` names a pair of the two, in their place. Where rules learn from verified tokens, ``thresholds`` tells
    whether the next iteration waits for what the last one taught: ``"auto"`` waits where the text depends on it. What
    is learned belongs to one text, or with ``share_thresholds`` to all that use the same rules.
    """

    stop: str = STOP
    accept: str = ACCEPT
    method: str | None = None
    thresholds: Literal["auto", "sync", "async"] = "auto"
    share_thresholds: bool = False

    def __post_init__(self) -> None:
        clash = [key for key, default in (("stop", STOP), ("accept", ACCEPT)) if getattr(self, key) != default]
        if self.method is not None and clash:
            raise ConfigError(f"[speculation] method is {self.method!r} and {clash[0]} is given too; leave out one")


class PredictorConfig(_Section, frozen=True, kw_only=True):
    """``[predictor]``: the directory with encoder and head, ``"zoo"`` for the embedded one, None (``"none"``) for none.

    ``"auto"`` becomes ``"zoo"`` beside the embedded target and None beside any other.
    """

    path: str | None = "auto"

    def __post_init__(self) -> None:
        if self.path in ("", "none"):
            msgspec.structs.force_setattr(self, "path", None)


class StorageConfig(_Section, frozen=True, kw_only=True):
    """``[storage]``: an optional throttle on loading drafts, to emulate slow storage."""

    bandwidth: str | None = None

    def __post_init__(self) -> None:
        _ = self.bytes_per_second

    @property
    def bytes_per_second(self) -> float | None:
        """Give the throttle in bytes per second; None is no throttle."""
        return None if self.bandwidth is None else parse_bandwidth(self.bandwidth, "[storage] bandwidth")


class EventsConfig(_Section, frozen=True, kw_only=True):
    """``[events]``: where the event log goes (None: nowhere), how much of it, and the size at which it is rotated.

    Level ``"debug"`` is complete; ``"info"`` leaves out what is written per iteration and cannot be audited.
    """

    path: str | None = None
    level: Literal["info", "debug"] = "debug"
    rotate: str | int | None = None

    def __post_init__(self) -> None:
        _require(self.path != "", "[events] path", self.path, "a file to append to")
        _ = self.rotate_bytes

    @property
    def rotate_bytes(self) -> int | None:
        """Give the size in bytes at which a log file is set aside; None is never."""
        return None if self.rotate is None else parse_bytes(self.rotate, "[events] rotate")


class ServeConfig(_Section, frozen=True, kw_only=True):
    """``[serve]``: where the daemon listens, who may talk to it, and what it takes on.

    ``uds`` (a Unix socket) replaces host and port. ``queue`` requests may wait beside the one that runs, each at most
    ``queue_timeout_s`` for its first token and ``request_timeout_s`` in all; ``drain_timeout_s`` is what running
    requests get when the daemon is told to stop. ``allowed_hosts`` are names it is reached under beside its own.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    api_key: str | None = None
    model_name: str | None = None
    queue: int = 64
    queue_timeout_s: float = 60.0
    request_timeout_s: float = 600.0
    drain_timeout_s: float = 3.0
    max_body: str | int = "1MiB"
    allowed_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(self.host != "", "[serve] host", self.host, "an address or a name to listen on")
        _require(0 <= self.port < 2**16, "[serve] port", self.port, "an integer in [0, 65535] (0 takes a free one)")
        _require(self.uds != "", "[serve] uds", self.uds, "the path of a Unix socket")
        _require(self.api_key != "", "[serve] api_key", self.api_key, "a secret that is not empty")
        _require(self.model_name != "", "[serve] model_name", self.model_name, "a name that is not empty")
        _require(self.queue >= 0, "[serve] queue", self.queue, "an integer >= 0")
        for key in ("queue_timeout_s", "request_timeout_s", "drain_timeout_s"):
            seconds = getattr(self, key)
            _require(0 < seconds < float("inf"), f"[serve] {key}", seconds, "a finite number of seconds > 0")
        _ = self.max_body_bytes

    @property
    def max_body_bytes(self) -> int:
        """Give the size in bytes from which on a request's body is refused."""
        return parse_bytes(self.max_body, "[serve] max_body")


ZOO_DRAFTS = tuple(DraftConfig(name=name) for name in ("general", "code", "math", "law", "medical"))


class Config(_Section, frozen=True, kw_only=True):
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
            _require(names.count(name) == 1, "[[drafts]] name", name, "different in every entry")

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
        drafts = tuple(replace(draft, model=_located(draft.model, base)) for draft in self.drafts)
        events = self.events
        if events.path is not None:
            events = replace(events, path=_absolute(events.path, base))
        predictor = self.predictor
        if predictor.path is not None and zoo_name(predictor.path) is None:
            predictor = replace(predictor, path=_absolute(predictor.path, base))
        schedule = self.schedule
        if schedule.plan is not None:
            schedule = replace(schedule, plan=_absolute(schedule.plan, base))
        serve = self.serve
        if serve.uds is not None:
            serve = replace(serve, uds=_absolute(serve.uds, base))
        target = replace(self.target, model=_located(self.target.model, base))
        return replace(
            self, target=target, drafts=drafts, schedule=schedule, predictor=predictor, events=events, serve=serve
        )


def _located(model: str, base: Path) -> str:
    """Make a path absolute; an id on the hub is one only where no such directory exists."""
    by_name = zoo_name(model) is not None or (hub_model(model) is not None and not (base / model).exists())
    return model if by_name else _absolute(model, base)


def _absolute(path: str, base: Path) -> str:
    return str(base / expanded(path))


def _table(header: str, section: dict[str, object]) -> str:
    return f"{header}\n{tomli_w.dumps({key: value for key, value in section.items() if value is not None})}"
