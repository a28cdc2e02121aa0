"""Requests that wait for news of a room. They belong to one event loop."""

from __future__ import annotations

import asyncio

from components.classroom.rooms import Room, Whom

MOST = 3
"""Waiting requests of one token, one for each tab. One more ends the oldest."""


class Waiting:
    """The waiting requests of all rooms. Each is one future."""

    def __init__(self) -> None:
        self._waiting: dict[Room, dict[str, list[asyncio.Future[None]]]] = {}

    async def news(self, room: Room, token: str, seconds: float) -> None:
        """Wait until the person with this token has something new to see, or for at most so many seconds."""
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
            self._forget(room, token, waiter)

    def _forget(self, room: Room, token: str, waiter: asyncio.Future[None]) -> None:
        of_room = self._waiting[room]
        of_room[token].remove(waiter)
        if not of_room[token]:
            del of_room[token]
        if not of_room:
            del self._waiting[room]

    def tell(self, room: Room, to: Whom) -> None:
        """Wake the requests for which there is news."""
        of_room = self._waiting.get(room, {})
        for token in of_room if to == "all" else [room.key]:
            for waiter in of_room.get(token, ()):
                _settle(waiter)


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
