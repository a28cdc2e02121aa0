"""A reverse proxy as in front of many servers. It removes a path prefix and passes on only complete
answers."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.helpers.servers import running

_OF_ONE_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_SECONDS = 60


class Proxy(ThreadingHTTPServer):
    """A proxy that passes requests below `prefix` to the server at `address`, such as
    `http://127.0.0.1:PORT`."""

    daemon_threads = True

    def __init__(self, address: str, prefix: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.inner, self.prefix = urlsplit(address).netloc, prefix


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_HOP}
        headers |= {"X-Forwarded-For": self.client_address[0], "X-Forwarded-Host": self.headers["host"]}
        inner = http.client.HTTPConnection(self.server.inner, timeout=_SECONDS)
        with suppress(OSError):  # an endless stream, or a visitor who left
            inner.request(self.command, self.path.removeprefix(self.server.prefix), body or None, headers)
            self._answer(inner.getresponse())
        inner.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        body = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_ONE_HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def proxied(address: str, prefix: str) -> Iterator[str]:
    """The address at which the proxy serves a server."""
    with running(Proxy(address, prefix)) as outside:
        yield f"{outside}{prefix}"
