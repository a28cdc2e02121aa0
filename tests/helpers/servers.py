"""Small HTTP servers in threads of the tests, and requests that no HTTP client would send."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
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


@contextmanager
def answering(answer: Callable[[Any], tuple[int, bytes]]) -> Iterator[str]:
    """Answer POST requests, as servers of language models do. Yields the address.

    answer(asked): the status and the body of the answer to this JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            status, body = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address


def raw(address: str, *parts: str) -> bytes:
    """A server's answer to these bytes, until it closes the connection."""
    parsed = urlsplit(address)
    with socket.create_connection((parsed.hostname, parsed.port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))
