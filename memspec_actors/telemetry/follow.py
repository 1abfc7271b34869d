"""Follow an event log while it is written: in a file that is rotated, or over HTTP from a daemon."""

import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from memspec_actors.errors import UsageError
from memspec_actors.telemetry.log_files import log_files, open_log_file, open_successor

__all__ = ["follow_file", "follow_url"]

READ_TIMEOUT_S = 60.0  # a daemon that has nothing to tell says so more often
CONNECT_TIMEOUT_S = 5.0


def follow_file(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a log from its beginning on, and None whenever there is nothing new: then wait, or stop.

    A line is given once it is whole. When the file is rotated away its rest comes first, then what was begun since. A
    compressed file grows no more: it is given once, as far as it goes. Raises UsageError if the log cannot be read.
    """
    try:
        yield from _follow(path)
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the event log {path} cannot be read: {reason}") from error


def _follow(path: Path) -> Iterator[bytes | None]:
    file, part = open_log_file(log_files(path)[0]), b""
    try:
        while True:
            successor = open_successor(path, file)
            part = yield from _whole_lines(file, part)  # after the look: nothing is written to what has a successor
            if successor is None:
                yield None
            else:
                file.close()
                file, part = successor, b""
    finally:
        file.close()


def _whole_lines(file: BinaryIO, part: bytes) -> Generator[bytes, None, bytes]:
    """Yield the lines from here on, the first of which began with ``part``; return the part of one that comes last."""
    try:
        while line := file.readline():
            part += line
            if part.endswith(b"\n"):
                yield part
                part = b""
    except EOFError:  # a compressed file that was cut off
        pass
    return part


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
                    raise UsageError(f"{url} cannot be reached: {error}; does a daemon listen there?") from error
            yield None
