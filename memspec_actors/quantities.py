"""Numbers, sizes and rates as people write them: ``"0.4"``, ``"1.2GiB"``, ``"500MB"``, ``"200MB/s"``."""

import re
from fractions import Fraction

from memspec_actors.errors import ConfigError

__all__ = ["parse_bandwidth", "parse_bytes", "parse_number"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(text: str | int, key: str = "size") -> int:
    """Turn a size such as ``"1.2GiB"``, ``"500MB"`` or a plain number into bytes, rounded down.

    KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB powers of 1024. Raises ConfigError, naming ``key``.
    """
    num_bytes = _num_bytes(str(text))
    if num_bytes < 1:
        raise ConfigError(f'{key} is {text!r}; it must be a size such as "1.2GiB", "500MB" or a number of bytes >= 1')
    return num_bytes


def parse_bandwidth(text: str, key: str = "bandwidth") -> float:
    """Turn a rate such as ``"200MB/s"`` into bytes per second. Raises ConfigError, naming ``key``."""
    amount, _, unit = text.partition("/")
    num_bytes = _num_bytes(amount) if unit.strip() == "s" else 0
    if num_bytes < 1:
        raise ConfigError(f'{key} is {text!r}; it must be a rate such as "200MB/s" or "1.5GiB/s"')
    return float(num_bytes)


def parse_number(text: str) -> float | None:
    """Turn a plain decimal number >= 0 such as ``"0.4"`` or ``"5"`` into a float; None if it is none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _num_bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    return int(Fraction(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
