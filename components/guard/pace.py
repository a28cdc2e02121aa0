"""How much one address may ask for: each has a purse that every request costs something from.

A purse is large, so that a class behind one address arrives at once, and is filled again slowly. With an
empty one, answers come later, at the pace at which it is filled; with one far below that, not at all.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from components.guard import limits
from components.guard.bodies import Refused

REFUSED = 40
"""What an answer of 400 or above costs: whoever uses the page rarely gets one."""
FAILED = 2000
"""What an answer of 500 or above costs: it leaves a line in the server's log, and Gradio may write more."""
SECOND = 10_000
"""What a second of computing costs."""
UNIT_BYTES = 16_384
"""So many bytes of an answer cost a unit."""
LONGEST = 5.0
"""Seconds that a request waits at most."""
_ADDRESSES = 4096
"""Purses that are remembered, those used last."""


def _units() -> tuple[float, float]:
    most = limits.current()
    return most.units, most.units_per_second


class Purses:
    """One for each address. clock: seconds; bounds: units that a purse holds, and that it gets a second."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        bounds: Callable[[], tuple[float, float]] = _units,
    ):
        self._clock, self._bounds = clock, bounds
        self._purses: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def pay(self, address: str, cost: int) -> float:
        """Take this much out; the seconds until the purse is not below empty any more."""
        most, rate = self._bounds()
        now = self._clock()
        held, since = self._purses.pop(address, (float(most), now))
        held = min(most, held + (now - since) * rate) - cost
        self._purses[address] = max(held, -2 * LONGEST * rate), now
        if len(self._purses) > _ADDRESSES:
            self._purses.popitem(last=False)
        return max(0.0, -held / rate)

    async def wait(self, address: str, cost: int) -> None:
        """Pay, and wait for as long as it takes. `Refused` where that is too long."""
        seconds = self.pay(address, cost)
        if seconds > LONGEST:
            raise Refused(429, "too many requests from your address; wait a few seconds")
        if seconds:
            await asyncio.sleep(seconds)
