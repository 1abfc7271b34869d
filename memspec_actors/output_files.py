"""Files that people ask for: refused before the work if they cannot be written, and never there half."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memspec_actors.errors import UsageError

__all__ = ["check_output", "make_directory", "whole_file", "write_whole"]


def check_output(path: Path) -> None:
    """Raise UsageError, before the work whose outcome is to go to ``path``, if it cannot be written there."""
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a directory; name a file in it")
    if path.exists() and not path.is_file():  # a pipe, a terminal, another device
        return
    folder = _place(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path} cannot be written: there is no directory {folder}; make it, or give another path")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the directory {folder} is not writable; give another path")


def make_directory(path: Path) -> None:
    """Make the directory ``path``, before the work whose outcome is to go there. Raises UsageError if it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the directory {path} cannot be made: {error.strerror}; give another path") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"the directory {path} is not writable; give another path")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under ``path`` only once it is whole.

    What was there stays until then, and a link stays a link. A pipe or a device is written to as it is. Raises
    UsageError as `check_output` does, or if it cannot be opened or written after all.
    """
    check_output(path)
    if path.exists() and not path.is_file():
        with _opened(path, path) as file:
            yield file
        return
    place = _place(path)
    partial = place.with_name(place.name + ".partial")
    try:
        with _opened(partial, path) as file:
            yield file
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `whole_file` does. Raises UsageError if that cannot be done."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def _opened(place: Path, path: Path) -> Iterator[BinaryIO]:
    try:
        file = place.open("wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; give another path") from error
    try:
        with file:
            yield file
    except OSError as error:
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise  # of another file, or of a pipe that nobody reads any more
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _place(path: Path) -> Path:
    """Return where a file really lies, links followed."""
    return Path(os.path.realpath(path))
