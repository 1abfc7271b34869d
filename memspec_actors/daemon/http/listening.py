"""Open the socket that the daemon listens on."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memspec_actors.config import ServeConfig
from memspec_actors.errors import ConfigError

__all__ = ["address_of", "listen"]

BACKLOG = 1024


@contextmanager
def listen(config: ServeConfig) -> Iterator[socket.socket]:
    """Give the bound socket; a Unix socket is its user's alone, and its file is removed at the end.

    Raises ConfigError naming the address.
    """
    if config.uds is not None:
        with _listen_unix(Path(config.uds)) as listener:
            yield listener
        return
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((config.host, config.port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:  # a label that is empty or too long is no OSError
        where = f"[serve] host {config.host!r} port {config.port}"
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigError(f"{where}: cannot listen there: {reason}") from error
    with listener:
        # What it accepts inherits this. asyncio does it only for sockets that name their protocol; without it a small
        # piece of a reply waits for the client to acknowledge the one before, which takes clients up to 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def address_of(listener: socket.socket) -> str:
    """Return the address as callers write it."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _listen_unix(path: Path) -> Iterator[socket.socket]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        try:
            _remove_stale(path)
            mask = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(mask)
            listener.listen(BACKLOG)
        except OSError as error:
            raise ConfigError(f"[serve] uds {str(path)!r}: cannot listen there: {error.strerror or error}") from error
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed daemon left; one that somebody listens on is left alone, and binding fails."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # one that is overrun would have us wait; it owns its socket all the same
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
