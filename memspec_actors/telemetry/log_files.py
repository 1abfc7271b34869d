"""The files of one event log: plain or compressed, and those that were rotated out of it."""

import gzip
import re
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["COMPRESSED", "log_files", "open_log_file", "rotated_files"]

COMPRESSED = (".gz", ".zst")


def rotated_files(path: Path) -> list[tuple[int, Path]]:
    """List (N, ``path.N``), the oldest first, which has the largest N; some may be compressed (``path.1.gz``)."""
    name = re.compile(re.escape(path.name) + r"\.(\d+)(\.gz|\.zst)?")
    numbered = [(int(match[1]), file) for file in path.parent.glob("*") if (match := name.fullmatch(file.name))]
    return sorted(numbered, reverse=True)


def log_files(path: Path) -> list[Path]:
    """List the files of the log at ``path`` in the order in which they were written."""
    return [*(file for _, file in rotated_files(path)), path]


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
        self._stream = ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True, closefd=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            return self._stream.readinto(buffer)
        except self._error as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        self._stream.close()  # type: ignore[no-untyped-call]
        super().close()
