"""Who may talk to the daemon: callers with the key, under a name that is its own, from no foreign web page."""

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from memspec_actors.config import ServeConfig
from memspec_actors.daemon.http.json_response import json_response
from memspec_actors.daemon.http.refusals import Refusal
from memspec_actors.errors import ConfigError
from memspec_actors.protocols.http_replies import ErrorReply

__all__ = ["AccessControl", "check_exposure"]

OPEN_PATHS = ("/", "/health")  # these and the dashboard's files tell nothing and change nothing
OPEN_FOLDER = "/dashboard/"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


def _is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(config: ServeConfig, *, without_key: bool) -> None:
    """Raise ConfigError for an address that others reach where nothing is asked of them."""
    if config.uds is None and config.api_key is None and not without_key and not _is_loopback(config.host):
        raise ConfigError(
            f"[serve] host is {config.host!r}, which other machines reach, and there is no api_key: set one, listen on "
            "127.0.0.1, or say --without-key"
        )


class AccessControl:
    """Let a request through or refuse it, before anything of it is read.

    The Host header must be a name of the daemon's own, or a web page that points its own name at this machine could
    read what is served (DNS rebinding); an Origin header, which browsers send, must be one too. A daemon behind a key
    on an address of all interfaces, or on a Unix socket, is reached under any name.
    """

    def __init__(self, app: ASGIApp, config: ServeConfig) -> None:
        self._app = app
        self._key = None if config.api_key is None else config.api_key.encode()
        everywhere = config.host in ("0.0.0.0", "::") and not config.allowed_hosts
        self._any_host = config.uds is not None or everywhere
        self._hosts = frozenset(name.lower() for name in (*LOCAL_NAMES, config.host, *config.allowed_hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            response = json_response(
                ErrorReply(error=refusal.body), status=refusal.status_code, headers=refusal.headers
            )
            await response(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) > 1:
            return Refusal(400, "there are several Host headers; send one", code="host")
        host, origin = headers.get("host"), headers.get("origin")
        if not self._any_host and _name(f"//{host}") not in self._hosts:
            return Refusal(403, f"the Host header is {host!r}, which is none of the daemon's names", code="host")
        if origin is not None and not self._is_own(origin, host):
            return Refusal(403, f"requests from pages of {origin!r} are not taken", code="origin")
        path = scope["path"]
        if self._key is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return None
        if not self._has_key(headers):
            return Refusal(401, "give the daemon's key: Authorization: Bearer KEY", code="invalid_api_key")
        return None

    def _is_own(self, origin: str, host: str | None) -> bool:
        """A page of ours has our own address as its origin, whatever the name, or one of our names."""
        return origin.partition("://")[2] == host or (not self._any_host and _name(origin) in self._hosts)

    def _has_key(self, headers: Headers) -> bool:
        assert self._key is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip(" \t").encode("latin-1"), self._key)


def _name(url: str) -> str | None:
    """Return the host of a URL, lower case, without port and brackets; None if there is none."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
