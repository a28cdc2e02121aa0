"""A small server that answers POST requests, as servers of language models do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.helpers.servers import running


@contextmanager
def answering(answer: Callable[[Any], tuple[int, bytes]]) -> Iterator[str]:
    """The server's address. answer(asked): the status and the body of the answer to this JSON."""

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
