"""Limits below HTTP: the number of connections, and what a connection may send before a complete request.

uvicorn parses with httptools, in C, but calls Python for each header and each chunk, and limits neither.
`Connection` is uvicorn's protocol with such limits. `watch` ends connections that keep the server waiting.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections import Counter
from typing import Any, ClassVar

import uvicorn.config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from components.guard import addresses, limits

MOST_LINES = 100
"""Header lines of a request."""
MOST_HEAD = 65_536
"""Bytes of a request outside its body: the head and the framing of chunks."""
MOST_PIPELINED = 16
"""Requests that a connection may send before it has read the first answer."""
LEAST_PIECE = 64
"""Mean bytes per piece of a body. A piece is a chunk, or its part in one packet."""
_FREE_PIECES = 64
"""Pieces of a body that may be smaller than the mean."""
SEND_BUFFER = 256 * 1024
"""Bytes of an answer that the kernel buffers for a connection; its default is megabytes."""
_LOOK = 1.0
"""Seconds between two checks of all connections."""
_MOST_FILES = 65_536
_KEPT_FILES = 200
"""File handles of this process that are no connections: the page's files, models, pipes."""
_NO_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _WrongError(Exception):
    """Raised within the parser to end it: the data is no valid request."""


class Connection(HttpToolsProtocol):
    """A connection with limits. When a limit is exceeded it answers 400 with one line and closes."""

    per_address: ClassVar[Counter[str]] = Counter()
    """Open connections of each address, in this process."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.logger = logging.getLogger(__name__)  # uvicorn's own logs each bad request
        self._address = ""
        self._begins, self._in_body = False, False
        self._lines = self._size = self._framing = self._pieces = self._body = 0
        self._wrong = ""
        self._unsent = 0
        self._moved = time.monotonic()

    def connection_made(self, transport: Any) -> None:
        """Accept the connection, unless its address or the process has too many."""
        super().connection_made(transport)
        peer: dict[str, Any] = {"client": self.client, "headers": []}
        self._address = addresses.address(peer, addresses.Proxies())
        self.per_address[self._address] += 1
        self._bound_buffer(transport.get_extra_info("socket"))
        if len(self.connections) > _most_connections() or self._one_too_many():
            transport.abort()

    def _one_too_many(self) -> bool:
        if addresses.current().count:  # behind a proxy all connections have the proxy's address
            return False
        most = min(limits.current().connections_per_visitor, _most_connections() // 2)
        return self.per_address[self._address] > most

    def _bound_buffer(self, connected: Any) -> None:
        if connected is not None and connected.family != getattr(socket, "AF_UNIX", None):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER // 2)  # Linux doubles it

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.per_address[self._address] -= 1
        if self.per_address[self._address] <= 0:
            del self.per_address[self._address]

    def data_received(self, data: bytes) -> None:
        """Parse the data and count the bytes that belong to no body."""
        self._begins, before = False, self._body
        super().data_received(data)
        if not self._begins and not self.transport.is_closing():
            self._framing += len(data) - (self._body - before)
            if self._framing > MOST_HEAD:
                self._wrong = "The request's head is too long."
                self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong and close the connection."""
        super().send_400_response(self._wrong or msg)

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        self._begins, self._in_body = True, False
        self._lines = self._size = self._framing = self._pieces = self._body = 0
        self._moved = time.monotonic()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header line."""
        self._lines += 1
        if self._in_body:
            self._refuse("Trailers are not accepted.")
        if self._lines > MOST_LINES:
            self._refuse(f"The request has more than {MOST_LINES} header lines.")
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._in_body = True
        if len(self.pipeline) >= MOST_PIPELINED:
            self._refuse("Too many requests are sent ahead of their answers.")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pieces += 1
        self._body += len(body)
        if self._body < LEAST_PIECE * (self._pieces - _FREE_PIECES):
            self._refuse("The request's body comes in pieces that are too small.")
        super().on_body(body)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MOST_HEAD:
            self._refuse("The request's head is too long.")

    def _refuse(self, why: str) -> None:
        self._wrong = why
        raise _WrongError(why)

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._moved = time.monotonic()
        super().resume_writing()

    def look(self, now: float) -> None:
        """End the connection if its client is too slow to send a head or to read an answer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved = unsent, now
        most, waited = limits.current(), now - self._moved
        if unsent and waited >= most.stalled_seconds:
            self.transport.abort()
        if self._waits_for_head() and waited >= most.request_seconds:
            self.transport.abort()

    def _waits_for_head(self) -> bool:
        """Whether the next request's head has begun but is not complete. uvicorn itself ends idle
        connections."""
        between = self.cycle is None or self.cycle.response_complete
        return between and self.timeout_keep_alive_task is None and not self._unsent

    def on_response_complete(self) -> None:
        """Note the time: the next head is due from now on."""
        self._moved = time.monotonic()
        super().on_response_complete()


def install() -> None:
    """Let every server that starts from now on use `Connection`. Gradio's launcher has no option for it."""
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{Connection.__name__}"


async def watch(app: Any) -> None:
    """Check the connections of a Gradio app's server for as long as it runs."""
    asyncio.get_running_loop().set_exception_handler(_Errors().handle)
    while True:
        await asyncio.sleep(_LOOK)
        server = getattr(app.get_blocks(), "server", None)
        if server is not None:
            now = time.monotonic()
            for connection in list(server.server_state.connections):
                connection.look(now)


class _Errors:
    """A handler for errors of the event loop: without file handles, asyncio logs 2,000 errors a second."""

    def __init__(self) -> None:
        self._last_logged = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error; log missing file handles in one line, at most every ten seconds."""
        if getattr(context.get("exception"), "errno", None) not in _NO_HANDLES:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._last_logged > 10:
            self._last_logged = time.monotonic()
            logging.getLogger(__name__).error("no new connection: %s", context["exception"])


def allow_many() -> None:
    """Raise this process's limit of open connections to what the machine allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_connections() -> int:
    """The most connections of all addresses together. Some handles are left for files."""
    try:
        import resource
    except ImportError:
        return _MOST_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if soft == resource.RLIM_INFINITY else soft
    return max(files // 2, files - _KEPT_FILES)
