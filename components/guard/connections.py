"""Connections that never become requests: ended after a while, and bounded for each address.

uvicorn waits for ever for the head of a request, and a process may have so many connections only.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from components.guard import addresses, limits

LOOK = 1.0
"""Seconds between two looks at all connections."""
_MOST_FILES = 65_536


class Watch:
    """What is known of a server's connections (uvicorn's protocols). clock: seconds."""

    def __init__(self, clock: Any = time.monotonic):
        self._clock = clock
        self._seen: dict[Any, float] = {}  # in the order in which they came
        self._waiting: dict[Any, float] = {}

    def look(self, connections: set[Any]) -> None:
        """End those that wait too long for a head, and of an address with too many those that came last."""
        now, most = self._clock(), limits.current()
        self._seen = {
            **{c: t for c, t in self._seen.items() if c in connections},
            **self._new(connections, now),
        }
        self._waiting = {c: self._waiting.get(c, now) for c in connections if _waits(c)}
        for connection, since in self._waiting.items():
            if now - since >= most.head_seconds:
                connection.transport.abort()
        if addresses.current().count == 0:  # else all come from the proxy
            self._bound(most.connections_per_visitor)

    def _new(self, connections: set[Any], now: float) -> dict[Any, float]:
        return {c: now for c in connections if c not in self._seen}

    def _bound(self, most: int) -> None:
        number: Counter[str] = Counter()
        for connection in self._seen:
            host = (connection.client or ("",))[0]
            number[host] += 1
            if number[host] > most:
                connection.transport.abort()


def _waits(connection: Any) -> bool:
    """Whether it is between two requests, and not only kept for the next one, which uvicorn ends itself."""
    between = connection.cycle is None or connection.cycle.response_complete
    return between and connection.timeout_keep_alive_task is None


async def watch(app: Any) -> None:
    """Look after the connections of a Gradio app's server, for as long as it runs."""
    watching = Watch()
    while True:
        await asyncio.sleep(LOOK)
        server = getattr(app.get_blocks(), "server", None)
        if server is not None:
            watching.look(set(server.server_state.connections))


def allow_many() -> None:
    """Let this process have as many connections as the machine lets it, where it begins with fewer."""
    try:
        import resource
    except ImportError:  # Windows has no such bound
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
