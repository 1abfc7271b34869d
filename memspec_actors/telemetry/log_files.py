"""The files of one event log: plain or compressed, and those that were rotated out of it."""

import gzip
import os
import re
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["log_files", "log_files_in_turn", "open_log_file", "open_successor", "rotated_files"]

COMPRESSED = (".gz", ".zst")


def rotated_files(path: Path) -> list[tuple[int, Path]]:
    """List (N, ``path.N``), the oldest first, which has the largest N; some may be compressed (``path.1.gz``).

    Of one N, the plain file comes last.
    """
    name = re.compile(re.escape(path.name) + r"\.(\d+)(\.gz|\.zst)?")
    numbered = [(int(match[1]), file) for file in path.parent.glob("*") if (match := name.fullmatch(file.name))]
    return sorted(numbered, reverse=True)


def log_files(path: Path) -> list[Path]:
    """List the files of the log at ``path`` in the order in which they were written.

    Of one that is there twice, plain and compressed, the plain one counts: the other is only just being written, or
    was cut off while it was.
    """
    return [*dict(rotated_files(path)).values(), path]


def log_files_in_turn(path: Path) -> Iterator[Path]:
    """Give those files one by one, each under the name that it has when its turn comes.

    When the log is rotated while it is read, a file would otherwise be left out for another that is read twice.
    """
    for inode, _ in _between_rotations(path):
        if inode is None:
            yield path  # to be told that it is missing
        else:
            yield from [file for each, file in _between_rotations(path) if each == inode]


def open_successor(path: Path, file: BinaryIO) -> BinaryIO | None:
    """Open the file that was begun after ``file`` in the log at ``path``; None while that is the newest, or not known.

    A newest file that is shorter than what was read of it has been emptied: it is its own successor.
    """
    own, files = os.fstat(file.fileno()).st_ino, _between_rotations(path)
    inodes = [inode for inode, _ in files]
    if None in inodes or (inodes[-1] == own and not _was_emptied(path, file)):  # just being rotated, or the newest
        return None
    inode, following = files[inodes.index(own) + 1 if own in inodes[:-1] else -1]
    try:
        successor = open_log_file(following)
    except FileNotFoundError:  # rotated since
        return None
    if os.fstat(successor.fileno()).st_ino == inode:
        return successor
    successor.close()
    return None


def _was_emptied(path: Path, file: BinaryIO) -> bool:
    if path.suffix in COMPRESSED or not file.seekable():  # what comes through a pipe has no place to be at
        return False
    return file.tell() > os.fstat(file.fileno()).st_size


def _between_rotations(path: Path) -> list[tuple[int | None, Path]]:
    """List the files of a log with their inodes (None: it is missing), as they stand at one moment.

    A look that a rotation comes in between gives one file twice, or misses one: it is looked until nothing changes.
    """
    before, now = None, _look(path)
    while now != before:
        before, now = now, _look(path)
    return now


def _look(path: Path) -> list[tuple[int | None, Path]]:
    return [(_inode(file), file) for file in log_files(path)]


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def open_log_file(path: Path) -> BinaryIO:
    """Open ``path`` for reading lines, decompressed if its name ends in ``.gz`` or ``.zst``. Raises OSError."""
    match path.suffix:
        case ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        case ".zst":
            return cast(BinaryIO, BufferedReader(_Zstd(path)))
        case _:
            return path.open("rb")


class _Zstd(RawIOBase):
    """Read a zstd file; damage is an OSError, as it is in a gzip file."""

    def __init__(self, path: Path) -> None:
        from zstandard import ZstdDecompressor, ZstdError

        self._error = ZstdError
        self._file = path.open("rb")
        self._stream = ZstdDecompressor().stream_reader(self._file, read_across_frames=True, closefd=True)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, buffer: Any, /) -> int:
        try:
            return self._stream.readinto(buffer)
        except self._error as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        self._stream.close()  # type: ignore[no-untyped-call]
        super().close()
