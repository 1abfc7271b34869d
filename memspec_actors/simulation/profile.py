"""What decoding costs on a device: the times that a simulation lets pass."""

import math
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np

from memspec_actors.errors import ConfigError

__all__ = ["DeviceProfile", "open_profile", "profile_names"]

PROFILES = files("memspec_actors.simulation") / "profiles"


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give the times of a device in milliseconds.

    ``target_ms`` is one pass of the target by the number of tokens that it reads; other widths lie on the straight line
    through their neighbours. ``draft_ms`` is one drafted token, ``catch_up_ms`` one token that a draft reads to bring
    its cache up to date, ``predict_ms`` one ranking by the trained predictor. A load takes ``load_ms``, or its bytes at
    ``load_bytes_per_s``. ``device`` and ``source`` say what was measured or assumed. Raises ConfigError for times that
    no device has.
    """

    device: str
    source: str
    target_ms: dict[int, float]
    draft_ms: float
    catch_up_ms: float
    predict_ms: float
    load_ms: float | None = None
    load_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("draft_ms", "catch_up_ms", "predict_ms", "load_ms", "load_bytes_per_s"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise ConfigError(f"{name} is {value}; it must be a number of at least 0")
        if (
            not self.target_ms
            or min(self.target_ms) < 1
            or not all(0 < ms < math.inf for ms in self.target_ms.values())
        ):
            raise ConfigError(f"target_ms is {self.target_ms}; give times above 0 by width, width 1 or more")
        if (self.load_ms is None) == (not self.load_bytes_per_s):
            raise ConfigError("give the time of a load either as load_ms or as load_bytes_per_s above 0")

    def target_s(self, width: int) -> float:
        """Return the time of a target pass over ``width`` tokens."""
        widths = sorted(self.target_ms)
        times = [self.target_ms[each] for each in widths]
        if width > widths[-1] and len(widths) > 1:
            slope = max(0.0, (times[-1] - times[-2]) / (widths[-1] - widths[-2]))
            return (times[-1] + slope * (width - widths[-1])) / 1e3
        return float(np.interp(width, widths, times)) / 1e3

    def draft_s(self, num_tokens: int) -> float:
        """Return the time of drafting ``num_tokens`` tokens."""
        return self.draft_ms * num_tokens / 1e3

    def catch_up_s(self, num_tokens: int) -> float:
        """Return the time in which a draft reads ``num_tokens`` tokens."""
        return self.catch_up_ms * num_tokens / 1e3

    def iteration_s(self, num_drafted: int) -> float:
        """Return the time of one iteration: ``num_drafted`` tokens drafted, and verified together with one more."""
        return self.draft_s(num_drafted) + self.target_s(num_drafted + 1)

    def load_s(self, nbytes: int) -> float:
        """Return the time of loading a draft of ``nbytes`` bytes."""
        return nbytes / self.load_bytes_per_s if self.load_bytes_per_s else (self.load_ms or 0.0) / 1e3

    @property
    def predict_s(self) -> float:
        """The time of one ranking by the trained predictor."""
        return self.predict_ms / 1e3


def profile_names() -> list[str]:
    """List the profiles that are shipped."""
    return sorted(each.name.removesuffix(".toml") for each in PROFILES.iterdir() if each.name.endswith(".toml"))


def open_profile(source: str | Path) -> DeviceProfile:
    """Open a shipped profile by its name, or any by its path. Raises ConfigError naming the file and the key."""
    shipped = PROFILES / f"{source}.toml"
    path = shipped if str(source) in profile_names() else Path(source)
    try:
        return msgspec.toml.decode(path.read_bytes(), type=DeviceProfile)
    except OSError as error:
        known = ", ".join(profile_names())
        raise ConfigError(f"profile {str(source)!r}: {error.strerror}; give a file or one of {known}") from error
    except (msgspec.DecodeError, ConfigError) as error:
        raise ConfigError(f"profile {str(source)!r}: {error}") from error
