"""One token bucket for each address. Every request that starts work takes units from it.

A bucket is large, so that a class behind one address can arrive at once, and it refills slowly. While a
bucket is empty, requests are delayed to the refill rate. Far below empty, they are refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.exceptions import HTTPException

LONGEST = 5.0
"""The longest wait of a request, in seconds."""
ADDRESSES = 4096
"""Most buckets that are kept: the most recently used ones."""


class Buckets:
    """One bucket per key. bounds: returns the units that a bucket holds and the units that it gains per
    second."""

    def __init__(self, bounds: Callable[[], tuple[float, float]]):
        self._bounds = bounds
        self._held: dict[
            str, tuple[float, float]
        ] = {}  # key -> units and time; the most recently used key is the last

    def take(self, key: str, cost: float) -> float:
        """Take this many units. Returns the seconds until the bucket is no longer below zero."""
        (most, rate), now = self._bounds(), time.monotonic()
        held, since = self._held.pop(key, (most, now))
        held = max(min(most, held + (now - since) * rate) - cost, -2 * LONGEST * rate)
        self._held[key] = held, now
        if len(self._held) > ADDRESSES:
            del self._held[next(iter(self._held))]
        return max(0.0, -held / rate)

    async def wait(self, key: str, cost: float) -> None:
        """Take this many units, and wait as long as needed. HTTPException if the wait would be too long."""
        seconds = self.take(key, cost)
        if seconds > LONGEST:
            raise HTTPException(429, "too many requests from your address; wait a few seconds")
        await asyncio.sleep(seconds)
