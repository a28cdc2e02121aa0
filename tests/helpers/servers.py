"""Small HTTP servers in threads of the tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """Let a server answer until the block ends. Yields its address."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
