"""Limits how much work each address starts, by token buckets: each address has a bucket of units, and
every request that starts work takes some of them.

A bucket is large, so that a class behind one address can arrive at once, and it refills slowly. While a
bucket is empty, requests are delayed to the refill rate. A request is refused if its delay would exceed
`LONGEST`.
"""

from __future__ import annotations

import asyncio
import time

from starlette.exceptions import HTTPException

LONGEST = 5.0
"""The longest wait of a request, in seconds."""
ADDRESSES = 4096
"""At most this many buckets are stored: those that were used most recently."""


class Buckets:
    """A bucket of units for each key.

    most: the units in a full bucket; rate: the units that a bucket gains per second. A bucket is stored as
    one number, the time at which it contains 0 units; a time in the past means that it contains more.
    """

    def __init__(self, most: float, rate: float):
        self._most, self._rate = most, rate
        self._level: dict[str, float] = {}  # the most recently used key is the last

    def take(self, key: str, cost: float) -> float:
        """Take this many units. Returns the seconds until the bucket is no longer below zero."""
        now = time.monotonic()
        full = now - self._most / self._rate
        level = min(max(self._level.pop(key, full), full) + cost / self._rate, now + 2 * LONGEST)
        self._level[key] = level
        if len(self._level) > ADDRESSES:
            del self._level[next(iter(self._level))]
        return max(0.0, level - now)

    async def wait(self, key: str, cost: float) -> None:
        """Take this many units, and wait as long as needed. HTTPException if the wait would be too long."""
        if (seconds := self.take(key, cost)) > LONGEST:
            raise HTTPException(429, "too many requests from your address; wait a few seconds")
        await asyncio.sleep(seconds)
