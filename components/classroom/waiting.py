"""Requests that wait for news of a room. All of them belong to one event loop."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from components.classroom.rooms import Room, Whom

MOST = 3
"""Most waiting requests of one token, which has one for each tab. A further request ends the oldest."""


class Waiting:
    """The waiting requests of all rooms, by room and token. Each is one future."""

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[Room, dict[str, list[asyncio.Future[None]]]] = WeakKeyDictionary()

    async def news(self, room: Room, token: str, seconds: float) -> None:
        """Wait until the person with this token has something new to see, or until this many seconds have
        passed."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        others = self._waiting.setdefault(room, {}).setdefault(token, [])
        others.append(waiter)
        for other in others[:-MOST]:
            _settle(other)
        timer = loop.call_later(seconds, _settle, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            others.remove(waiter)
            if not others:
                del self._waiting[room][token]

    def tell(self, room: Room, to: Whom) -> None:
        """Wake the requests for which there is news."""
        of_room = self._waiting.get(room, {})
        for token in of_room if to == "all" else [room.key]:
            for waiter in of_room.get(token, ()):
                _settle(waiter)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
