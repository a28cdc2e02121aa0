"""A class of 200 students behind one address: `python -m tests.stress.classroom`, about two minutes.

A lecturer leads the real app through lessons. Every student waits for news as the page does, answers each
question and receives its answer, while visitors generate. A second class sends a request every second instead
of waiting ones.

Students have no browser. They send and receive what the student's page does, with as little work as possible,
because they share the machine with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from components.classroom.rooms import Place
from components.lessons import panel as lessons
from tests.stress.visitors import Site, client, options, serving, write

LECTURER, CLASS = "127.0.0.3", "127.0.0.2"
"""The addresses of the lecturer and of the whole class. The visitors who generate have others."""
THINKS = 2.0
"""Seconds within which a class answers."""
STEPS = [
    Place(lesson["id"], step)
    for lesson in lessons.lessons()
    for step in range(1, len(lesson["questions"]) + 1)
]


class Line:
    """One connection that stays open. It is opened again if the server closed it."""

    def __init__(self, address: str, source: str, token: str = ""):
        parts = urlsplit(address)
        self.host, self.port, self.source, self.token = parts.hostname, parts.port, source, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a GET, or a POST if there is a body. Returns the status and the JSON, or the text if it is no
        JSON."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
        head += f"x-class-token: {self.token}\r\ncontent-type: application/json\r\n"
        message = f"{head}content-length: {len(content)}\r\n\r\n".encode() + content
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
        answer: Any = await reader.readexactly(length)
        with contextlib.suppress(ValueError):
            answer = json.loads(answer)
        return int(head.split()[1]), answer

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@dataclass
class Student:
    """A student with a line for news and one for answers. arrived: the time at which each version of the room
    arrived."""

    looks: Line
    sends: Line
    room: str
    arrived: dict[tuple[str, int, bool], float] = field(default_factory=dict)
    answers: int = 0
    refused: list[Any] = field(default_factory=list)

    async def attend(self, every: float | None) -> None:
        """Follow the lecturer and answer. every: seconds between requests that do not wait."""
        since: Any = ""
        answering: set[asyncio.Task[None]] = set()
        while True:
            status, state = await self.looks.ask(f"/class/now?room={self.room}&since={since}")
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
        place = {name: state["place"][name] for name in ("lesson", "step")}
        answer = {"room": self.room, **place, "value": any_of(state["question"])}
        status, reply = await self.sends.ask("/class/answer", answer)
        if status == 200:
            self.answers += 1
        else:
            self.refused.append(reply)


def any_of(question: dict[str, Any]) -> float:
    """A random valid answer to the question."""
    if "choices" in question:
        return float(random.randrange(len(question["choices"])))
    least, most, step = question["range"]
    return least + step * random.randrange(round((most - least) / step) + 1)


async def joined(address: str, room: str, number: int) -> list[Student]:
    """Students who join at once."""
    lines = [Line(address, CLASS) for _ in range(number)]
    tokens = await asyncio.gather(*(line.ask("/class/join", {"room": room}) for line in lines))
    for line, (status, reply) in zip(lines, tokens, strict=True):
        assert status == 200, reply
        line.token = reply["token"]
    return [Student(line, Line(address, CLASS, line.token), room) for line in lines]


async def taught(address: str, number: int, places: list[Place], every: float | None = None) -> Any:
    """Lead one class through these steps. Returns the seconds from the lecturer's click until all students
    have the news, and the answers."""
    lecturer = Line(address, LECTURER)
    _, answer = await lecturer.ask("/class/open", {})
    lecturer.token, room = answer["key"], answer["room"]
    students = await joined(address, room, number)
    attending = [asyncio.create_task(student.attend(every)) for student in students]
    await asyncio.sleep(2)
    delays = []
    for place in places:
        for is_revealed in (False, True):
            clicked, step = time.monotonic(), (place.lesson, place.step, is_revealed)
            body = {"room": room, "lesson": place.lesson, "step": place.step, "shown": is_revealed}
            status, reply = await lecturer.ask("/class/step", body)
            assert status == 200, reply
            async with asyncio.timeout(60):
                while not all(step in student.arrived for student in students):
                    await asyncio.sleep(0.02)
            delays.append(max(student.arrived[step] for student in students) - clicked)
            await asyncio.sleep(0 if is_revealed else THINKS + 1)  # all have answered
    await lecturer.ask("/class/close", {"room": room})
    await asyncio.gather(*attending)
    for line in [lecturer, *(line for student in students for line in (student.looks, student.sends))]:
        line.close()
    return {
        "steps": len(delays),
        "seconds_to_all": {"median": median(delays), "slowest": max(delays)},
        "answers": sum(student.answers for student in students),
        "refused": [message for student in students for message in student.refused],
    }


async def generating(address: str, number: int) -> None:
    """Let one visitor generate one text after the other."""
    site = Site(address)
    async with client(address, source=f"127.0.1.{number + 1}") as http:
        while True:
            await site.generate(http, length=100, seed=number)


async def measured(address: str, students: int, visitors: int) -> dict[str, Any]:
    """Measure both classes, one after the other. visitors: how many generate during the second."""
    places = STEPS[:8]
    async with client(address) as http:
        await Site(address).generate(http, length=2)  # this loads the models
    figures = {"every_second": await taught(address, students, places, every=1.0)}
    tasks = [asyncio.create_task(generating(address, number)) for number in range(visitors)]
    await asyncio.sleep(5)
    busy = await taught(address, students, places)
    for task in tasks:
        task.cancel()
    figures["while_visitors_generate"] = busy | {"visitors": visitors}
    return figures | {"load_average": os.getloadavg()[0]}


def main() -> None:
    """Serve, teach, and write the report."""
    sizes = {"students": (200, "students"), "generating": (4, "visitors who generate")}
    arguments = options("A class of students behind one address.", "classroom.json", **sizes)
    random.seed(1)
    with serving() as (address, _):
        figures = asyncio.run(measured(address, arguments.students, arguments.generating))
    write(arguments.out, {"students": arguments.students} | figures)


if __name__ == "__main__":
    main()
