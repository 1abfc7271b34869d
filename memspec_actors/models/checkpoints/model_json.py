"""Read a JSON file of a model directory."""

from pathlib import Path
from typing import TypeVar

import msgspec

from memspec_actors.errors import CheckpointError

__all__ = ["read_json"]

T = TypeVar("T")


def read_json(path: Path, kind: type[T]) -> T:
    """Return the contents as a ``kind``; raises CheckpointError naming the file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); give a Hugging Face directory") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: is not the JSON it should be ({error})") from error
