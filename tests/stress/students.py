"""Students of a class without a browser.

They send and receive what the student's page does, with as little work as possible, because they share the
machine with the server.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

CLASS = "127.0.0.2"
"""The address of the whole class. The lecturer and the visitors who generate have other addresses."""
THINKS = 2.0
"""Seconds within which a class answers."""


class Line:
    """One connection that stays open. It is opened again if the server closed it."""

    def __init__(self, address: str, source: str, token: str = ""):
        parts = urlsplit(address)
        self.host, self.port, self.source, self.token = parts.hostname, parts.port, source, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a GET, or a POST if there is a body. Returns the status and the JSON, or the text if it is no
        JSON."""
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
        head += f"x-class-token: {self.token}\r\ncontent-type: application/json\r\n"
        message = f"{head}content-length: {len(sent)}\r\n\r\n".encode() + sent
        for _ in range(2):
            try:
                return await self._exchanged(message)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
        raise ConnectionError(path)

    async def _exchanged(self, message: bytes) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port, local_addr=(self.source, 0))
        reader, writer = self._streams
        writer.write(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        said: Any = await reader.readexactly(length)
        with suppress(ValueError):
            said = json.loads(said)
        return int(head.split()[1]), said

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@dataclass
class Student:
    """A student. arrived: the time at which each version of the room arrived; answers: accepted answers;
    refused: refused ones."""

    looks: Line
    sends: Line
    room: str
    arrived: dict[tuple[str, int, bool], float] = field(default_factory=dict)
    requests: int = 0
    answers: int = 0
    refused: list[Any] = field(default_factory=list)

    async def attend(self, every: float | None) -> None:
        """Follow the lecturer and answer. every: seconds between requests that do not wait."""
        since: Any = ""
        answering: set[asyncio.Task[None]] = set()
        while True:
            status, state = await self.looks.ask(f"/class/now?room={self.room}&since={since}")
            self.requests += 1
            if status in (404, 410):
                return
            assert status == 200, state
            place = state.get("place")
            if place and tuple(place.values()) not in self.arrived:
                self.arrived[tuple(place.values())] = time.monotonic()
                if "question" in state and not place["shown"] and state["mine"] is None:
                    answering.add(asyncio.create_task(self._answer(state)))
            since = state["version"] if every is None else ""
            await asyncio.sleep(0.3 if every is None else every)

    async def _answer(self, state: dict[str, Any]) -> None:
        await asyncio.sleep(random.uniform(0, THINKS))
        place, question = state["place"], state["question"]
        answer = {
            "room": self.room,
            "lesson": place["lesson"],
            "step": place["step"],
            "value": any_of(question),
        }
        status, said = await self.sends.ask("/class/answer", answer)
        if status == 200:
            self.answers += 1
        else:
            self.refused.append(said)


def any_of(question: dict[str, Any]) -> float:
    """A random valid answer to the question."""
    if "choices" in question:
        return float(random.randrange(len(question["choices"])))
    least, most, step = question["range"]
    return least + step * random.randrange(round((most - least) / step) + 1)


async def joined(address: str, room: str, number: int, source: str = CLASS) -> list[Student]:
    """Students who joined at once, from one address."""
    lines = [Line(address, source) for _ in range(number)]
    tokens = await asyncio.gather(*(line.ask("/class/join", {"room": room}) for line in lines))
    for line, (status, said) in zip(lines, tokens, strict=True):
        assert status == 200, said
        line.token = said["token"]
    return [Student(line, Line(address, source, line.token), room) for line in lines]


async def until(true: Callable[[], bool], patience: float = 60) -> None:
    """Wait for a condition, at most this many seconds. TimeoutError if it stays false."""
    async with asyncio.timeout(patience):
        while not true():
            await asyncio.sleep(0.02)
