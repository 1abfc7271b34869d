"""Paths as people write them."""

from pathlib import Path

from memspec_actors.errors import ConfigError

__all__ = ["expanded"]


def expanded(path: str) -> Path:
    """Return a path with its ``~`` resolved. Raises ConfigError for one that no file can have."""
    if "\0" in path:
        raise ConfigError(f"the path {path!r} holds a zero character; leave it out")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the path {path!r} begins with a home that is not known; write it out") from error
