"""A class of 200 students behind one address: `python -m tests.stress.classroom`, about four minutes.

A lecturer leads the real app through all lessons. Every student waits for news as the page does, answers each
question and receives its answer. A second class sends a request every second instead of waiting ones, and a
third learns while visitors generate.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import psutil

from components.classroom import steps
from components.classroom.rooms import Place, Rooms
from components.lessons import panel as lessons
from tests.stress.students import CLASS, THINKS, Line, Student, joined, until
from tests.stress.visitors import RESULTS, Site, client, serving, write

STEPS = [
    Place(lesson["id"], step)
    for lesson in lessons.lessons()
    for step in range(1, len(lesson["questions"]) + 1)
]


@dataclass
class Lesson:
    """A class's measurements: for each step, the seconds from the lecturer's click until each student has the
    news."""

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
            "answers": sum(student.answers for student in self.students),
            "refused": [said for student in self.students for said in student.refused],
            "seconds_until_the_last_answer_is_counted": median(self.counted),
            "requests_per_second": sum(student.requests for student in self.students) / self.seconds,
            "server_processor_share": self.processor / self.seconds,
        }


async def taught(
    address: str,
    server: psutil.Process,
    number: int,
    places: list[Place],
    every: float | None = None,
    source: str = CLASS,
    beside: Callable[[str, str], Awaitable[None]] | None = None,
) -> Lesson:
    """Lead one class from the first step to the end of its room.

    source: the address of its students. beside: runs meanwhile; it gets the room's code and a student's
    token.
    """
    lecturer = Line(address, "127.0.0.3")
    _, opened = await lecturer.ask("/class/open", {})
    lecturer.token, room = opened["key"], opened["room"]
    students = await joined(address, room, number, source)
    attending = [asyncio.create_task(student.attend(every)) for student in students]
    await asyncio.sleep(2)
    other = asyncio.ensure_future(beside(room, students[0].looks.token)) if beside else None
    start, used = time.monotonic(), sum(server.cpu_times()[:2])
    delays, counted = [], []
    for place in places:
        for shown in (False, True):
            clicked = time.monotonic()
            body = {"room": room, "lesson": place.lesson, "step": place.step, "shown": shown}
            status, said = await lecturer.ask("/class/step", body)
            assert status == 200, said
            step = (place.lesson, place.step, shown)
            await until(lambda step=step: all(step in student.arrived for student in students))
            delays.append([student.arrived[step] - clicked for student in students])
            if not shown:
                asked = max(student.arrived[step] for student in students)
                await _counted(lecturer, room, number)
                counted.append(time.monotonic() - asked - THINKS)
    seconds, used = time.monotonic() - start, sum(server.cpu_times()[:2]) - used
    if other:
        await other
    await lecturer.ask("/class/close", {"room": room})
    await asyncio.gather(*attending)
    for browser in [lecturer, *(b for student in students for b in (student.looks, student.sends))]:
        browser.close()
    return Lesson(delays, counted, students, seconds, used)


async def _counted(lecturer: Line, room: str, number: int) -> None:
    """Wait until the lecturer sees that all have answered."""
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
    """Let this many visitors generate one text after the other. Returns the tokens per second of their
    runs."""
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
    """Bytes of a room in which this many students have answered every question."""
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
    """Measure all classes, one after the other."""
    places = STEPS[: options.questions]
    async with client(address) as http:
        await Site(address).generate(http, length=2)  # this loads the models
    resting = server.memory_info().rss
    figures: dict[str, Any] = {"waiting": (await taught(address, server, options.students, places)).report()}
    after = server.memory_info().rss
    figures["every_second"] = (
        await taught(address, server, options.students, places[:8], every=1.0)
    ).report()
    again = server.memory_info().rss
    async with generating(address, options.generating) as speeds:
        await asyncio.sleep(5)
        busy = await taught(address, server, options.students, places[:8])
    figures["while_visitors_generate"] = busy.report() | {
        "visitors": options.generating,
        "tokens_per_second_each": median(speeds) if speeds else None,
    }
    figures["load_average"] = os.getloadavg()[0]
    figures["server_megabytes"] = {
        "before": resting >> 20,
        "after_the_first_class": after >> 20,
        "after_the_second": again >> 20,
    }
    return figures


def main(arguments: list[str] | None = None) -> None:
    """Serve, teach, and write the report."""
    parser = argparse.ArgumentParser(description="A class of students behind one address.")
    parser.add_argument("--students", type=int, default=200, help="students (default: 200)")
    parser.add_argument("--questions", type=int, default=len(STEPS), help="questions (default: all)")
    parser.add_argument("--generating", type=int, default=4, help="visitors who generate (default: 4)")
    parser.add_argument("--out", default=RESULTS / "classroom.json", help="JSON file (default: %(default)s)")
    options = parser.parse_args(arguments)
    random.seed(1)
    with serving() as (address, process):
        figures = asyncio.run(measured(address, process, options))
    sizes = {"students": options.students, "room_kilobytes": room_bytes(options.students) / 1000}
    write(options.out, sizes | figures)


if __name__ == "__main__":
    main()
