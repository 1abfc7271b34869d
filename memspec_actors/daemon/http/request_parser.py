"""HTTP/1.1 requests, those included that would rather speak another protocol."""

from typing import Protocol

import httptools

__all__ = ["BodySink", "RequestParser"]

FRAMING = (b"content-length", b"transfer-encoding")


class BodySink(Protocol):
    """Take the body of a request whose ``headers`` have come."""

    headers: list[tuple[bytes, bytes]]

    def on_body(self, body: bytes) -> None: ...

    def on_late_body_complete(self) -> None: ...


class RequestParser(httptools.HttpRequestParser):
    """Read on as HTTP/1.1 where a request offers an upgrade (RFC 9110, 7.8: it may be ignored).

    httptools ends such a request with its headers, as if what follows were the other protocol. But clients that offer
    HTTP/2, as Java's does with each of its first requests, send their body all the same. It goes to ``sink``, too.
    """

    def __init__(self, sink: BodySink) -> None:
        super().__init__(sink)
        self._sink = sink
        self._body: _Body | None = None
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # asyncio gives nothing else
        if self._body is not None:
            self._body.feed(data)
            return
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._body = _Body(self._sink)
            self._body.feed(data[upgrade.args[0] :])


class _Body:
    """Read one body, framed as its headers say; what comes after it is nothing."""

    def __init__(self, sink: BodySink) -> None:
        self._sink = sink
        self._is_complete = False
        self._parser = httptools.HttpRequestParser(self)
        framing = [b"%s: %s\r\n" % header for header in sink.headers if header[0] in FRAMING]
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")

    def feed(self, data: bytes) -> None:
        if not self._is_complete:
            self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if not self._is_complete:
            self._sink.on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_complete:
            self._is_complete = True
            self._sink.on_late_body_complete()
