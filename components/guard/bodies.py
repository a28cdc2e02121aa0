"""Limits for incoming request bodies: size, time and number, for each address and for all addresses.

Only late or large bodies count. If there are too many, the oldest body of the address with the most is ended,
so a slow sender blocks nobody else.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANY_VALUES = 30_000
"""Commas and brackets of a body, and so also the values in it. Parsing more would delay everyone else. A
prompt of the greatest length may consist of them.
"""


LATE = 1.0
"""An incomplete body counts after this many seconds."""
SMALL = 16_384
"""A body that is not late counts only above this many bytes."""


class Refused(Exception):  # noqa: N818 - an answer to the visitor, not an error of ours
    """A request that is refused with a status and one line of text."""

    def __init__(self, status: int, text: str, **headers: str):
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


@dataclass(frozen=True)
class Bounds:
    """Limits of one kind of body. size: bytes. seconds: time until the whole body has arrived. each, all: how
    many bodies of one address and of all addresses may be late or large at once."""

    size: int
    seconds: float
    each: int
    all: int


class _Body:
    """An incoming body. parts: the data so far; ended: set when the body must make room for others."""

    def __init__(self, address: str):
        self.address, self.began = address, time.monotonic()
        self.parts: list[bytes] = []
        self.size = 0
        self.ended = asyncio.Event()

    @property
    def counts(self) -> bool:
        """Whether the body is late or large, and so counts."""
        return self.size > SMALL or time.monotonic() - self.began > LATE


class Arriving:
    """The incoming bodies of one kind, for one event loop."""

    def __init__(self) -> None:
        self._bodies: dict[_Body, None] = {}  # in the order of arrival

    async def read(self, scope: Mapping[str, Any], receive: Any, address: str, bounds: Bounds) -> bytes:
        """The whole body. `Refused` names the limit that was exceeded. ConnectionError: the client left."""
        if stated_length(scope) > bounds.size:
            raise _too_large(bounds)
        body = _Body(address)
        self._bodies[body] = None
        self._make_room(bounds)
        reading = asyncio.ensure_future(self._read(body, receive, bounds))
        ending = asyncio.ensure_future(body.ended.wait())
        try:
            await asyncio.wait([reading, ending], timeout=bounds.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise Refused(408, _late(bounds, body.ended.is_set()))
            return reading.result()
        finally:
            self._bodies.pop(body, None)
            for task in (reading, ending):
                task.cancel()

    async def _read(self, body: _Body, receive: Any, bounds: Bounds) -> bytes:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client left")
            counted = body.counts
            body.parts.append(message.get("body", b""))
            body.size += len(body.parts[-1])
            more = message.get("more_body", False)
            if body.size > bounds.size:
                raise _too_large(bounds)
            if more and body.counts and not counted:
                self._make_room(bounds)
        return b"".join(body.parts)

    def _make_room(self, bounds: Bounds) -> None:
        """End the oldest bodies that count until the limits hold."""
        counting = [body for body in self._bodies if body.counts]
        while counting:
            address, most = Counter(body.address for body in counting).most_common(1)[0]
            if most <= bounds.each and len(counting) <= bounds.all:
                return
            oldest = next(body for body in counting if body.address == address)
            counting.remove(oldest)
            del self._bodies[oldest]
            oldest.ended.set()


async def collected(app: Any, scope: Any, receive: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """The complete answer of an app: status, headers and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return start["status"], start["headers"], body


def again(body: bytes, receive: Any) -> Any:
    """A `receive` for the app that replays the body, then passes on later messages."""
    given = False

    async def next_message() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def check_values(body: bytes) -> None:
    """Refuse JSON with so many values that parsing it would delay everyone else."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MANY_VALUES:
        raise Refused(413, f"the request has more than {MANY_VALUES:,} values")


def stated_length(scope: Mapping[str, Any]) -> int:
    """The body length stated in the request's head, or 0 if none is stated."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() and len(stated) < 20 else 0


def _too_large(bounds: Bounds) -> Refused:
    return Refused(413, f"the request is larger than {bounds.size:,} bytes")


def _late(bounds: Bounds, pushed: bool) -> str:
    if pushed:
        return "too many requests are on their way in, and this one was the slowest"
    return f"the request did not arrive within {bounds.seconds:g} seconds"
