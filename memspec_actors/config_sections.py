"""The sections of ``memspec.toml``: every key, its default, and which values it takes."""

import re
from typing import Literal

import msgspec

from memspec_actors.cores import usable_cores
from memspec_actors.errors import ConfigError
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.protocols.http_requests import MAX_NAME_LENGTH
from memspec_actors.quantities import parse_bandwidth, parse_bytes

__all__ = [
    "ACCEPT",
    "MAX_THREADS",
    "STOP",
    "DraftConfig",
    "EventsConfig",
    "MemoryConfig",
    "PredictorConfig",
    "ScheduleConfig",
    "Section",
    "ServeConfig",
    "SpeculationConfig",
    "StorageConfig",
    "TargetConfig",
    "require",
    "zoo_name",
]

STOP, ACCEPT = "gain", "auto"  # the rules where nothing is said
_DRAFT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,2})?|mps")
MAX_TIMEOUT_S = 1e9  # thirty years; no timer of the system's takes ten times as long
MAX_THREADS = 1024  # OpenMP ends the process when it cannot start as many as it was told


def require(holds: bool, key: str, value: object, expected: str) -> None:
    """Raise ConfigError saying what a key must be, unless that holds."""
    if not holds:
        raise ConfigError(f"{key} is {value!r}; it must be {expected}")


def _can_be_sent(key: str) -> bool:
    """Tell whether a caller can give a key in a header as it is."""
    return key != "" and key == key.strip() and key.isprintable()


def zoo_name(model: str) -> str | None:
    """Give the name of the embedded model that ``model`` means (``"zoo"``, ``"zoo:code"``), or None for any other."""
    if model == "zoo":
        return "target"
    return model.removeprefix("zoo:") if model.startswith("zoo:") else None


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: frozen, keyword only, unknown keys refused."""


class TargetConfig(Section, frozen=True, kw_only=True):
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
        require(self.model != "", "[target] model", self.model, 'a model directory or "zoo"')
        require(
            _DEVICE.fullmatch(self.device) is not None,
            "[target] device",
            self.device,
            '"cpu", "cuda", "cuda:N" or "mps"',
        )
        expected = f"an integer in [1, {MAX_THREADS}]"
        holds = self.threads == "auto" or 1 <= self.threads <= MAX_THREADS
        require(holds, "[target] threads", self.threads, f'{expected} or "auto"')
        holds = 1 <= self.background_threads <= MAX_THREADS
        require(holds, "[target] background_threads", self.background_threads, expected)

    @property
    def num_threads(self) -> int:
        """Give the threads of decoding as a number."""
        return max(1, usable_cores() - 1) if self.threads == "auto" else self.threads


class DraftConfig(Section, frozen=True, kw_only=True):
    """``[[drafts]]``: one draft model; without ``model`` it is the embedded one of that name.

    Without ``dtype`` it runs in the target's.
    """

    name: str
    model: str = ""
    dtype: DtypeName | None = None

    def __post_init__(self) -> None:
        expected = "made of letters, digits, dots, dashes and underscores"
        require(_DRAFT_NAME.fullmatch(self.name) is not None, "[[drafts]] name", self.name, expected)
        if self.model in ("", "zoo"):
            msgspec.structs.force_setattr(self, "model", f"zoo:{self.name}")


class MemoryConfig(Section, frozen=True, kw_only=True):
    """``[memory]``: room for drafts beside the target: ``capacity`` of them (K), or ``budget`` bytes, which win."""

    capacity: int = 2
    budget: str | int | None = None

    def __post_init__(self) -> None:
        require(self.capacity >= 1, "[memory] capacity", self.capacity, "an integer >= 1")
        _ = self.budget_bytes

    @property
    def budget_bytes(self) -> int | None:
        """Give the budget in bytes; None means that ``capacity`` decides."""
        return None if self.budget is None else parse_bytes(self.budget, "[memory] budget")


class ScheduleConfig(Section, frozen=True, kw_only=True):
    """``[schedule]``: a scheduling point every ``interval`` iterations (N), seeing ``recent_tokens`` tokens (T).

    It comes earlier where fewer iterations have given as many tokens as N of five drafted tokens can, 6 N. ``plan`` is
    the file of plans that an oracle's policy follows.
    """

    policy: str = "memspec"
    interval: int = 4
    recent_tokens: int = 64
    prediction: Literal["overlapped", "inline"] = "overlapped"
    plan: str | None = None

    def __post_init__(self) -> None:
        require(self.interval >= 1, "[schedule] interval", self.interval, "an integer >= 1")
        require(self.recent_tokens >= 1, "[schedule] recent_tokens", self.recent_tokens, "an integer >= 1")


class SpeculationConfig(Section, frozen=True, kw_only=True):
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


class PredictorConfig(Section, frozen=True, kw_only=True):
    """``[predictor]``: the directory with encoder and head, ``"zoo"`` for the embedded one, None (``"none"``) for none.

    ``"auto"`` becomes ``"zoo"`` beside the embedded target and None beside any other.
    """

    path: str | None = "auto"

    def __post_init__(self) -> None:
        if self.path in ("", "none"):
            msgspec.structs.force_setattr(self, "path", None)


class StorageConfig(Section, frozen=True, kw_only=True):
    """``[storage]``: an optional throttle on loading drafts, to emulate slow storage."""

    bandwidth: str | None = None

    def __post_init__(self) -> None:
        _ = self.bytes_per_second

    @property
    def bytes_per_second(self) -> float | None:
        """Give the throttle in bytes per second; None is no throttle."""
        return None if self.bandwidth is None else parse_bandwidth(self.bandwidth, "[storage] bandwidth")


class EventsConfig(Section, frozen=True, kw_only=True):
    """``[events]``: where the event log goes (None: nowhere), how much of it, and the size at which it is rotated.

    Level ``"debug"`` is complete; ``"info"`` leaves out what is written per iteration and cannot be audited.
    """

    path: str | None = None
    level: Literal["info", "debug"] = "debug"
    rotate: str | int | None = None

    def __post_init__(self) -> None:
        require(self.path != "", "[events] path", self.path, "a file to append to")
        _ = self.rotate_bytes

    @property
    def rotate_bytes(self) -> int | None:
        """Give the size in bytes at which a log file is set aside; None is never."""
        return None if self.rotate is None else parse_bytes(self.rotate, "[events] rotate")


class ServeConfig(Section, frozen=True, kw_only=True):
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
        require(self.host != "", "[serve] host", self.host, "an address or a name to listen on")
        require(0 <= self.port < 2**16, "[serve] port", self.port, "an integer in [0, 65535] (0 takes a free one)")
        require(self.uds != "", "[serve] uds", self.uds, "the path of a Unix socket")
        if self.api_key is not None and not _can_be_sent(self.api_key):  # it stays out of what is printed
            raise ConfigError("[serve] api_key must not be empty, nor hold line ends or spaces around it")
        fits = self.model_name is None or 1 <= len(self.model_name) <= MAX_NAME_LENGTH
        require(fits, "[serve] model_name", self.model_name, f"a name of 1 to {MAX_NAME_LENGTH} characters")
        require(self.queue >= 0, "[serve] queue", self.queue, "an integer >= 0")
        for key in ("queue_timeout_s", "request_timeout_s", "drain_timeout_s"):
            seconds, expected = getattr(self, key), f"a number of seconds in (0, {MAX_TIMEOUT_S:g}]"
            require(0 < seconds <= MAX_TIMEOUT_S, f"[serve] {key}", seconds, expected)
        _ = self.max_body_bytes

    @property
    def max_body_bytes(self) -> int:
        """Give the size in bytes from which on a request's body is refused."""
        return parse_bytes(self.max_body, "[serve] max_body")
