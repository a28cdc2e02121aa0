"""Connections below HTTP: how many there are, and what one may send before it has sent a request.

uvicorn parses with httptools, in C, but calls Python for each header and each chunk, and has no limit on
either. `Connection` is uvicorn's protocol with such limits; `watch` ends connections that keep the server
waiting.
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
"""Bytes of a request that are not its body: the head, and the framing of chunks."""
MOST_PIPELINED = 16
"""Requests that a connection may send ahead of the answer to the first."""
LEAST_PIECE = 64
"""Mean bytes of the pieces in which a body arrives: chunks, or what each packet held of it."""
_FREE_PIECES = 64
"""Pieces of a body that may be smaller."""
SEND_BUFFER = 256 * 1024
"""Bytes of an answer that the kernel holds for a connection; by default it takes megabytes."""
_LOOK = 1.0
"""Seconds between two looks at all connections."""
_MOST_FILES = 65_536
_KEPT_FILES = 200
"""Files of this process that are no connections: the page's, models, pipes."""
_NO_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _WrongError(Exception):
    """Ends the parser: the connection sends something that is no request here."""


class Connection(HttpToolsProtocol):
    """A connection within the limits. It answers 400 with one line, and is closed, where it exceeds them."""

    per_address: ClassVar[Counter[str]] = Counter()
    """Open connections of each address, in this process."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.logger = logging.getLogger(__name__)  # uvicorn's would write a line for each bad request
        self._address = ""
        self._begins, self._in_body = False, False
        self._lines = self._size = self._framing = self._pieces = self._body = 0
        self._wrong = ""
        self._unsent = 0
        self._moved = time.monotonic()

    def connection_made(self, transport: Any) -> None:
        """Take the connection, unless its address or the process has too many."""
        super().connection_made(transport)
        self._address = (self.client or ("",))[0]
        self.per_address[self._address] += 1
        self._bound_buffer(transport.get_extra_info("socket"))
        if len(self.connections) > _most_connections() or self._one_too_many():
            transport.abort()

    def _one_too_many(self) -> bool:
        if addresses.current().count:  # they all come from the proxy
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
        """Parse, and count what is no body."""
        self._begins, before = False, self._body
        super().data_received(data)
        if not self._begins and not self.transport.is_closing():
            self._framing += len(data) - (self._body - before)
            if self._framing > MOST_HEAD:
                self._wrong = "The request's head is too long."
                self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong, and close."""
        super().send_400_response(self._wrong or msg)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._begins, self._in_body = True, False
        self._lines = self._size = self._framing = self._pieces = self._body = 0
        self._moved = time.monotonic()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of its head."""
        self._lines += 1
        if self._in_body:
            self._refuse("Trailers are not accepted.")
        if self._lines > MOST_LINES:
            self._refuse(f"The request has more than {MOST_LINES} header lines.")
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._in_body = True
        if len(self.pipeline) >= MOST_PIPELINED:
            self._refuse("Too many requests are sent ahead of their answers.")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
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
        """The client takes what is sent to it."""
        self._moved = time.monotonic()
        super().resume_writing()

    def look(self, now: float) -> None:
        """End the connection where its client lets the server wait: for a head, or to send an answer."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved = unsent, now
        most, waited = limits.current(), now - self._moved
        if unsent and waited >= most.stalled_seconds:
            self.transport.abort()
        if self._waits_for_head() and waited >= most.head_seconds:
            self.transport.abort()

    def _waits_for_head(self) -> bool:
        """Whether it is between two requests and has begun the next; uvicorn ends those that are idle."""
        between = self.cycle is None or self.cycle.response_complete
        return between and self.timeout_keep_alive_task is None and not self._unsent

    def on_response_complete(self) -> None:
        """The next request's head is waited for from now on."""
        self._moved = time.monotonic()
        super().on_response_complete()


def install() -> None:
    """Let each server that is started from now on use `Connection`; Gradio's starter has no option for it."""
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{Connection.__name__}"


async def watch(app: Any) -> None:
    """Look after the connections of a Gradio app's server, for as long as it runs."""
    asyncio.get_running_loop().set_exception_handler(_Errors().handle)
    while True:
        await asyncio.sleep(_LOOK)
        server = getattr(app.get_blocks(), "server", None)
        if server is not None:
            now = time.monotonic()
            for connection in list(server.server_state.connections):
                connection.look(now)


class _Errors:
    """Errors of the event loop: asyncio reports a process without handles two thousand times a second."""

    def __init__(self) -> None:
        self._told = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error, that of missing handles in one line, every ten seconds at most."""
        if getattr(context.get("exception"), "errno", None) not in _NO_HANDLES:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._told > 10:
            self._told = time.monotonic()
            logging.getLogger(__name__).error("no new connection: %s", context["exception"])


def allow_many() -> None:
    """Let this process have as many connections as the machine allows, where it begins with fewer."""
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_connections() -> int:
    """Connections of all addresses together, so that handles are left for files."""
    try:
        import resource
    except ImportError:
        return _MOST_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if soft == resource.RLIM_INFINITY else soft
    return max(files // 2, files - _KEPT_FILES)
