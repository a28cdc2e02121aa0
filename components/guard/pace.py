"""Rate limits: each address has a purse, and every request costs units from it.

A purse is large, so that a class behind one address can arrive at once, and it refills slowly. With an empty
purse answers are delayed to the refill rate. Far below empty, requests are refused.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from components.guard import limits
from components.guard.bodies import Refused

REFUSED = 40
"""The cost of an answer of 400 or above. Normal visitors rarely get one."""
FAILED = 2000
"""The cost of an answer of 500 or above: it adds a line to the server's log, and Gradio may write more."""
SECOND = 10_000
"""The cost of a second of computing."""
UNIT_BYTES = 16_384
"""Bytes of an answer that cost one unit."""
LONGEST = 5.0
"""The longest wait of a request, in seconds."""
LATE = 1.0
"""Seconds until a request learns that it is refused for the purse's sake."""
ADDRESSES = 4096
"""Purses that are remembered: the most recently used ones."""


def _units() -> tuple[float, float]:
    most = limits.current()
    return most.units, most.units_per_second


class Purses:
    """One purse per address. clock: seconds; bounds: the units that a purse holds and the units that it gains
    per second."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        bounds: Callable[[], tuple[float, float]] = _units,
    ):
        self._clock, self._bounds = clock, bounds
        self._purses: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def pay(self, address: str, cost: int) -> float:
        """Take this many units. Returns the seconds until the purse is no longer below zero."""
        most, rate = self._bounds()
        now = self._clock()
        held, since = self._purses.pop(address, (float(most), now))
        held = min(most, held + (now - since) * rate) - cost
        self._purses[address] = max(held, -2 * LONGEST * rate), now
        if len(self._purses) > ADDRESSES:
            self._purses.popitem(last=False)
        return max(0.0, -held / rate)

    async def wait(self, address: str, cost: int) -> None:
        """Pay, and wait as long as needed.

        `Refused` if the wait would be too long. A refusal comes late: otherwise an attacker who asks again at
        once would keep the server busy with refusals.
        """
        seconds = self.pay(address, cost)
        if seconds > LONGEST:
            await asyncio.sleep(LATE)
            raise Refused(429, "too many requests from your address; wait a few seconds")
        if seconds:
            await asyncio.sleep(seconds)
