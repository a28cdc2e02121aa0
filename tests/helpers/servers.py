"""Small HTTP servers in threads of the tests, and requests that no HTTP client would send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """Let a server answer until the block ends. Yields its address."""
    with server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # soon ended
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def raw(address: str, *parts: str) -> bytes:
    """A server's answer to these bytes, until it closes the connection."""
    parsed = urlsplit(address)
    with socket.create_connection((parsed.hostname, parsed.port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))
