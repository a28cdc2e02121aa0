"""Requests on their way in: bounded in size, in time and in number, for each address and for all.

Where there are too many, the one that has taken longest ends, of the address that has most: a body that
arrives as bodies do, within milliseconds, is never that one, so whoever sends slowly stops nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MANY_VALUES = 30_000
"""Commas and brackets of a body, so also the values in it: to read more would hold up everybody else. A
prompt of the longest kind may consist of them."""


class Refused(Exception):  # noqa: N818 - an answer to the visitor, not an error of ours
    """A request that is answered with a status and one line of text."""

    def __init__(self, status: int, text: str, **headers: str):
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


@dataclass(frozen=True)
class Bounds:
    """size in bytes; seconds until all of it is there; each, all: at once of one address and of all."""

    size: int
    seconds: float
    each: int
    all: int


class Arriving:
    """The bodies of one kind that are on their way in, for one event loop."""

    def __init__(self) -> None:
        self._bodies: dict[asyncio.Event, str] = {}  # in the order in which they began; whose each is

    async def read(self, scope: Mapping[str, Any], receive: Any, address: str, bounds: Bounds) -> bytes:
        """The whole body. `Refused` says what is wrong; ConnectionError: the client left."""
        if stated_length(scope) > bounds.size:
            raise _too_large(bounds)
        ended = asyncio.Event()
        self._make_room(address, bounds)
        self._bodies[ended] = address
        reading = asyncio.ensure_future(_read(receive, bounds))
        ending = asyncio.ensure_future(ended.wait())
        try:
            await asyncio.wait([reading, ending], timeout=bounds.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise Refused(408, _late(bounds, ended.is_set()))
            return reading.result()
        finally:
            self._bodies.pop(ended, None)
            for task in (reading, ending):
                task.cancel()

    def _make_room(self, address: str, bounds: Bounds) -> None:
        number = Counter(self._bodies.values())
        if number[address] >= bounds.each:
            self._end_oldest(address)
        elif len(self._bodies) >= bounds.all:
            self._end_oldest(number.most_common(1)[0][0])

    def _end_oldest(self, address: str) -> None:
        oldest = next(ended for ended, whose in self._bodies.items() if whose == address)
        del self._bodies[oldest]
        oldest.set()


async def _read(receive: Any, bounds: Bounds) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client left")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > bounds.size:
            raise _too_large(bounds)
    return b"".join(parts)


def again(body: bytes, receive: Any) -> Any:
    """`receive` for the app: the body that has been read, then whatever comes."""
    given = False

    async def next_message() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def check_values(body: bytes) -> None:
    """`Refused` where JSON has so many values that reading it would hold up everybody else."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MANY_VALUES:
        raise Refused(413, f"the request has more than {MANY_VALUES:,} values")


def stated_length(scope: Mapping[str, Any]) -> int:
    """The length that a request's head states, 0 where it states none."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() and len(stated) < 20 else 0


def _too_large(bounds: Bounds) -> Refused:
    return Refused(413, f"the request is larger than {bounds.size:,} bytes")


def _late(bounds: Bounds, pushed: bool) -> str:
    if pushed:
        return "too many requests are on their way in, and this one was the slowest"
    return f"the request did not arrive within {bounds.seconds:g} seconds"
