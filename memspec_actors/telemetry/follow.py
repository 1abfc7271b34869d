"""Follow an event log while it is written: in a file that is rotated, or over HTTP from a daemon."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memspec_actors.errors import UsageError
from memspec_actors.telemetry.log_files import COMPRESSED, log_files, open_log_file

__all__ = ["follow_file", "follow_url"]

READ_TIMEOUT_S = 60.0  # a daemon that has nothing to tell says so more often
CONNECT_TIMEOUT_S = 5.0


def follow_file(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a log from its beginning on, and None whenever there is nothing new: then wait, or stop.

    A line is given once it is whole. When the file is rotated away its rest comes first, then what was begun since. A
    compressed file grows no more: it is given once, as far as it goes. Raises UsageError if the log cannot be read.
    """
    try:
        for older in log_files(path)[:-1]:
            yield from _all_lines(older)
        if path.suffix in COMPRESSED:
            yield from _all_lines(path)
            while True:
                yield None
        yield from _follow(path)
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the event log {path} cannot be read: {reason}") from error


def _all_lines(path: Path) -> Iterator[bytes]:
    try:
        with open_log_file(path) as lines:
            yield from lines
    except EOFError:  # a compressed file that was cut off
        return


def _follow(path: Path) -> Iterator[bytes | None]:
    file = open_log_file(path)
    try:
        while True:
            successor = _successor(path, file)
            yield from _whole_lines(file)  # after the look: nothing is written any more to what has a successor
            if successor is None:
                yield None
            else:
                file.close()
                file = successor
    finally:
        file.close()


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines from here on; a part of one is left for the next time."""
    while (line := file.readline()).endswith(b"\n"):
        yield line
    file.seek(-len(line), os.SEEK_CUR)


def _successor(path: Path, file: BinaryIO) -> BinaryIO | None:
    """Open the file that was begun after ``file`` was rotated or cut off; None while it is the newest."""
    try:
        status = path.stat()
    except FileNotFoundError:  # just being rotated
        return None
    current = os.fstat(file.fileno())
    if status.st_ino == current.st_ino:
        return path.open("rb") if status.st_size < file.tell() else None
    files = log_files(path)
    inodes = [each.stat().st_ino for each in files]
    following = inodes.index(current.st_ino) + 1 if current.st_ino in inodes else -1
    return open_log_file(files[following])


def follow_url(url: str, api_key: str | None = None) -> Iterator[bytes | None]:
    """Yield the records that a daemon sends as server-sent events, and None whenever the connection was lost.

    After a loss it asks for what came since (Last-Event-ID). Raises UsageError if the first connection fails or the
    daemon refuses.
    """
    import httpx2

    headers = {b"Authorization": b"Bearer " + api_key.encode()} if api_key else {}
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
    last_id, connected = "", False
    with httpx2.Client(headers=headers, timeout=timeout) as client:
        while True:
            try:
                with client.stream("GET", url, headers={"Last-Event-ID": last_id} if last_id else {}) as reply:
                    if not reply.is_success:
                        raise UsageError(f"{url} answered {reply.status_code} {reply.reason_phrase}")
                    connected = True
                    yield None
                    for line in reply.iter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            last_id = value
                        elif name == "data":
                            yield value.encode()
            except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:  # the last of a name that can be none
                if not connected:
                    raise UsageError(f"{url} cannot be reached: {error}") from error
            yield None
