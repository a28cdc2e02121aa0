"""A class of 200 students behind one address: `python -m tests.stress.classroom`, about four minutes.

A lecturer leads the real app through all lessons; every student waits for news as the page does, answers each
question and is told its answer. Then once more with requests every second instead of those that wait, and
once more while visitors generate. Students are connections of this process, with as little work as possible,
since it shares the machine with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import time
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any
from urllib.parse import urlsplit

import psutil

from components.classroom import steps
from components.classroom.rooms import Place, Rooms
from components.lessons import panel as lessons
from tests.stress.visitors import RESULTS, Site, client, serving, write

CLASS = "127.0.0.2"
"""The address of the whole class; the lecturer and those who generate have others."""
STEPS = [
    Place(lesson["id"], step)
    for lesson in lessons.lessons()
    for step in range(1, len(lesson["questions"]) + 1)
]
THINKS = 2.0
"""Seconds within which a class answers."""


class Browser:
    """One connection that stays open, and is opened again where the server closed it."""

    def __init__(self, address: str, source: str, token: str = ""):
        parts = urlsplit(address)
        self.host, self.port, self.source, self.token = parts.hostname, parts.port, source, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of a GET, or of a POST where there is a body."""
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
        return int(head.split()[1]), json.loads(await reader.readexactly(length))

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@dataclass
class Student:
    """arrived: when each version of the room was here first; refused: answers that did not count."""

    looks: Browser
    sends: Browser
    room: str
    arrived: dict[tuple[str, int, bool], float] = field(default_factory=dict)
    requests: int = 0
    refused: list[Any] = field(default_factory=list)

    async def attend(self, every: float | None) -> None:
        """Follow the lecturer, and answer; every: seconds between requests that do not wait."""
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
                if not place["shown"] and state["mine"] is None:
                    answering.add(asyncio.create_task(self._answer(state)))
            since = state["version"] if every is None else ""
            await asyncio.sleep(0.3 if every is None else every)

    async def _answer(self, state: dict[str, Any]) -> None:
        await asyncio.sleep(random.uniform(0, THINKS))
        place, question = state["place"], state["question"]
        value = float(
            random.randrange(len(question["choices"])) if "choices" in question else question["range"][0]
        )
        answer = {"room": self.room, "lesson": place["lesson"], "step": place["step"], "value": value}
        status, said = await self.sends.ask("/class/answer", answer)
        if status != 200:
            self.refused.append(said)


@dataclass
class Lesson:
    """What a class saw: seconds from the lecturer's click to each student, a list for each step."""

    delays: list[list[float]]
    counted: list[float]
    students: list[Student]
    seconds: float
    processor: float

    def report(self) -> dict[str, Any]:
        """The figures; `slowest` is over all students and steps."""
        every = [delay for step in self.delays for delay in step]
        of_student = [mean(delays) for delays in zip(*self.delays, strict=True)]
        return {
            "steps": len(self.delays),
            "seconds_to_a_student": {"median": median(every), "p99": sorted(every)[int(0.99 * len(every))]},
            "seconds_to_all": {"median": median(map(max, self.delays)), "slowest": max(every)},
            "slowest_student_over_median": max(of_student) / median(of_student),
            "answers": sum(len(student.arrived) for student in self.students) // 2,
            "refused": [said for student in self.students for said in student.refused],
            "seconds_until_the_last_answer_is_counted": median(self.counted),
            "requests_per_second": sum(student.requests for student in self.students) / self.seconds,
            "server_processor_share": self.processor / self.seconds,
        }


async def joined(address: str, room: str, number: int) -> list[Student]:
    """Students who came at once."""
    browsers = [Browser(address, CLASS) for _ in range(number)]
    tokens = await asyncio.gather(*(browser.ask("/class/join", {"room": room}) for browser in browsers))
    for browser, (status, said) in zip(browsers, tokens, strict=True):
        assert status == 200, said
        browser.token = said["token"]
    return [Student(browser, Browser(address, CLASS, browser.token), room) for browser in browsers]


async def taught(
    address: str, server: psutil.Process, number: int, places: list[Place], every: float | None = None
) -> Lesson:
    """One class from the first step to the end of its room."""
    lecturer = Browser(address, "127.0.0.3")
    _, opened = await lecturer.ask("/class/open", {})
    lecturer.token, room = opened["key"], opened["room"]
    students = await joined(address, room, number)
    attending = [asyncio.create_task(student.attend(every)) for student in students]
    await asyncio.sleep(2)
    start, used = time.monotonic(), sum(server.cpu_times()[:2])
    delays, counted = [], []
    for place in places:
        for shown in (False, True):
            clicked = time.monotonic()
            body = {"room": room, "lesson": place.lesson, "step": place.step, "shown": shown}
            status, said = await lecturer.ask("/class/step", body)
            assert status == 200, said
            step = (place.lesson, place.step, shown)
            await _until(lambda step=step: all(step in student.arrived for student in students))
            delays.append([student.arrived[step] - clicked for student in students])
            if not shown:
                asked = max(student.arrived[step] for student in students)
                await _counted(lecturer, room, number)
                counted.append(time.monotonic() - asked - THINKS)
    seconds, used = time.monotonic() - start, sum(server.cpu_times()[:2]) - used
    await lecturer.ask("/class/close", {"room": room})
    await asyncio.gather(*attending)
    for browser in [lecturer, *(b for student in students for b in (student.looks, student.sends))]:
        browser.close()
    return Lesson(delays, counted, students, seconds, used)


async def _until(true: Any, patience: float = 60) -> None:
    async with asyncio.timeout(patience):
        while not true():
            await asyncio.sleep(0.02)


async def _counted(lecturer: Browser, room: str, number: int) -> None:
    """Until the lecturer sees that all have answered."""
    since: Any = ""
    async with asyncio.timeout(60):
        while True:
            _, state = await lecturer.ask(f"/class/now?room={room}&since={since}")
            if state["answered"] >= number:
                return
            since = state["version"]
            await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def generating(address: str, visitors: int) -> AsyncIterator[list[float]]:
    """So many visitors who generate one text after the other; tokens a second of their runs."""
    site, speeds = Site(address), []

    async def visit(number: int) -> None:
        async with client(address, source=f"127.0.1.{number + 1}") as http:
            while True:
                visit = await site.generate(http, length=100, seed=number)
                speeds.append(len(visit.token_ids) / visit.seconds)

    tasks = [asyncio.create_task(visit(number)) for number in range(visitors)]
    try:
        yield speeds
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def room_bytes(number: int) -> int:
    """What one room holds that so many students answered every question of."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    room = Rooms().open("")
    tokens = [room.join() for _ in range(number)]
    for place in STEPS:
        room.lead(steps.checked(place))
        for token in tokens:
            room.answer(token, place[:2], 1.0)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken


async def measured(address: str, server: psutil.Process, options: argparse.Namespace) -> dict[str, Any]:
    """All classes, one after the other."""
    places = STEPS[: options.questions]
    async with client(address) as http:
        await Site(address).generate(http, length=2)  # models are loaded
    resting = server.memory_info().rss
    found: dict[str, Any] = {"waiting": (await taught(address, server, options.students, places)).report()}
    after = server.memory_info().rss
    found["every_second"] = (await taught(address, server, options.students, places[:8], every=1.0)).report()
    again = server.memory_info().rss
    async with generating(address, options.generating) as speeds:
        await asyncio.sleep(5)
        busy = await taught(address, server, options.students, places[:8])
    found["while_visitors_generate"] = busy.report() | {
        "visitors": options.generating,
        "tokens_per_second_each": median(speeds) if speeds else None,
    }
    found["load_average"] = os.getloadavg()[0]
    found["server_megabytes"] = {
        "before": resting >> 20,
        "after_the_first_class": after >> 20,
        "after_the_second": again >> 20,
    }
    return found


def main(arguments: list[str] | None = None) -> None:
    """Serve, teach, write."""
    parser = argparse.ArgumentParser(description="A class of students behind one address.")
    parser.add_argument("--students", type=int, default=200, help="students (default: 200)")
    parser.add_argument("--questions", type=int, default=len(STEPS), help="questions (default: all)")
    parser.add_argument("--generating", type=int, default=4, help="visitors who generate (default: 4)")
    parser.add_argument("--out", default=RESULTS / "classroom.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    random.seed(1)
    with serving() as (address, process):
        found = asyncio.run(measured(address, process, options))
    sizes = {"students": options.students, "room_kilobytes": room_bytes(options.students) / 1000}
    write(options.out, sizes | found)


if __name__ == "__main__":
    main()
