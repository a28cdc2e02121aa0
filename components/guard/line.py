"""A queue for computations: a few run at once, and waiting addresses take turns.

The next request comes from the address that was served longest ago, so a visitor with a thousand requests
delays only their own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from components.guard.bodies import Refused


@dataclass
class Place:
    """A place in which one request computes. rest: seconds that the place stays empty afterwards."""

    rest: float = 0.0


class Line:
    """`at_once` places in one event loop. `place` states how many requests of one address may wait."""

    def __init__(self, at_once: int):
        self._free = at_once
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, address: str, most: int) -> AsyncIterator[Place]:
        """A place, as soon as it is this address's turn. `Refused` if `most` requests of the address already
        wait."""
        await self._take(address, most)
        place = Place()
        try:
            yield place
        finally:
            if place.rest:
                asyncio.get_running_loop().call_later(place.rest, self._release)
            else:
                self._release()

    def _release(self) -> None:
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
        if mine.done() and not mine.cancelled():  # cancelled after its turn had come
            self._release()

    def _call(self) -> None:
        while self._free and self._waiting:
            address, own = next(iter(self._waiting.items()))
            del self._waiting[address]
            if not own:
                continue
            next_one = own.popleft()
            if own:
                self._waiting[address] = own  # back to the end: the other addresses come first
            if not next_one.done():
                self._free -= 1
                next_one.set_result(None)
