"""A file of whole lines that is only ever appended to, each line by one ``write()``, and set aside when it is full."""

import errno
import os
import stat
import sys
from pathlib import Path

from memspec_actors.telemetry.log_files import rotated_files

__all__ = ["AppendFile"]


class AppendFile:
    """Append lines to ``path``, which becomes ``path.1`` (that one ``path.2``) before it outgrows ``rotate_bytes``.

    A half line that a killed process left at the end is closed off with a newline. A line longer than ``rotate_bytes``
    has a file to itself. What is no regular file (a pipe, a device) is never rotated. Raises OSError, also for a file
    that another one appends to: the lines of two would lie among each other.
    """

    def __init__(self, path: Path, rotate_bytes: int | None = None) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._open()

    def append(self, line: bytes | bytearray) -> None:
        """Write ``line``, which ends in a newline. Raises OSError if it could not be written whole."""
        if self._rotate_bytes is not None and self._num_bytes + len(line) > self._rotate_bytes and self._num_bytes:
            self._rotate()
        written = os.write(self._fd, line)
        self._num_bytes += written
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes could be written")

    def close(self) -> None:
        """Close the file; nothing is written."""
        os.close(self._fd)

    def _open(self) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        status = os.fstat(fd)
        is_regular = stat.S_ISREG(status.st_mode)
        if is_regular:
            _claim(fd)
        else:
            self._rotate_bytes = None
        self._fd, self._num_bytes = fd, status.st_size
        if is_regular and self._num_bytes and not _ends_in_newline(self._path):
            self._num_bytes += os.write(self._fd, b"\n")

    def _rotate(self) -> None:
        name = self._path.name
        for number, file in rotated_files(self._path):
            file.rename(file.with_name(file.name.replace(f"{name}.{number}", f"{name}.{number + 1}", 1)))
        self._path.rename(self._path.with_name(f"{name}.1"))
        full = self._fd
        self._open()
        os.close(full)


def _claim(fd: int) -> None:
    """Lock a file until it is closed; close it and raise OSError if somebody else has locked it."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise OSError(errno.EBUSY, "another engine is writing to it; give another path") from error
    except OSError:  # a file system that knows no locks
        return


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
