"""A line for what computes: a few at once, and in turn from each address that waits.

Whoever asks a thousand questions waits behind their own: the next one taken is of the address that has been
served longest ago.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from components.guard.bodies import Refused


class Line:
    """Places for `at_once`; each address may have so many waiting as `place` is told. For one event loop."""

    def __init__(self, at_once: int):
        self._free = at_once
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, address: str, most: int) -> AsyncIterator[None]:
        """A place, as soon as it is this address's turn. `Refused` where `most` of it wait already."""
        await self._take(address, most)
        try:
            yield
        finally:
            self._free += 1
            self._call()

    async def _take(self, address: str, most: int) -> None:
        own = self._waiting.setdefault(address, deque())
        if len(own) >= most:
            raise Refused(429, f"{most} of your questions wait already: wait for their answers")
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        own.append(mine)
        self._call()
        try:
            await mine
        except asyncio.CancelledError:
            self._leave(address, mine)
            raise

    def _leave(self, address: str, mine: asyncio.Future[None]) -> None:
        if mine in self._waiting.get(address, ()):
            self._waiting[address].remove(mine)
        if mine.done() and not mine.cancelled():  # called, and gone before it came
            self._free += 1
            self._call()

    def _call(self) -> None:
        while self._free and self._waiting:
            address, own = next(iter(self._waiting.items()))
            del self._waiting[address]
            if not own:
                continue
            next_one = own.popleft()
            if own:
                self._waiting[address] = own  # at the end: the others first
            if not next_one.done():
                self._free -= 1
                next_one.set_result(None)
