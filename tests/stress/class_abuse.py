"""What can be tried against a class, and what comes of it: `python -m tests.stress.class_abuse`, two minutes.

Each attempt comes from the address that the class shares, as behind one router or an unstated proxy, while a
lecturer leads thirty students there from question to question: their slowest step stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import psutil

from components.classroom import web
from components.classroom.rooms import ALPHABET, LENGTH
from components.guard import limits
from tests.stress.students import Line, joined, until
from tests.stress.visitors import RESULTS, Site, client, serving, write

SECONDS = 12.0
"""Of an attempt that goes on."""
WORKERS = 16
PATIENCE = 90.0
"""Seconds that whoever comes afterwards tries to join."""
STUDENTS, QUESTION = 30, {"lesson": "trees", "step": 1}


class Class(NamedTuple):
    """The class: server, the address that all come from, code, the lecturer's key, a student's token."""

    address: str
    source: str
    room: str
    key: str
    token: str


Got = dict[str, Any]


async def _flood(at: Class, ask: Callable[[Line, int], Awaitable[int]]) -> Got:
    """Let several connections ask again and again. Returns the number of answers by status."""
    got, end, number = Counter[str](), time.monotonic() + SECONDS, 0

    async def worker() -> None:
        nonlocal number
        line = Line(at.address, at.source)
        while time.monotonic() < end:
            number += 1
            try:
                async with asyncio.timeout(max(0.1, end - time.monotonic())):
                    got[str(await ask(line, number))] += 1
            except (TimeoutError, OSError, asyncio.IncompleteReadError):
                got["no answer"] += 1
                line.close()

    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    return dict(got)


def _code(number: int) -> str:
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(LENGTH))


# ---------------------------------------------------------------- what is tried


async def guessed_codes(at: Class) -> Got:
    """Codes are tried, first as fast as it goes, then in the long run."""

    async def ask(line: Line, number: int) -> int:
        return (await line.ask("/class/join", {"room": _code(7**9 * number)}))[0]

    first, later = await _flood(at, ask), await _flood(at, ask)
    minute = 60 / SECONDS * later.get("404", 0)
    best = 60 * limits.Limits().units_per_second / web._PRICES["join"]  # of a client that keeps to the pace
    years = len(ALPHABET) ** LENGTH / limits.Limits().rooms / best / 60 / 24 / 365
    tries = {"tries_a_minute": minute, "at_most": best, "years_to_any_of_all_rooms": years}
    return {"at_first": first, "then": later} | tries


async def wrong_keys(at: Class) -> Got:
    """A student leads, a stranger leads, nobody leads; each with all that a lecturer can do."""
    got, line = Counter[str](), Line(at.address, at.source)
    acts: dict[str, Any] = {"step": QUESTION | {"step": 3}, "draft": {"prompt": "Once"}}
    acts |= {name: {} for name in ("again", "check", "next", "close")}
    for line.token in (at.token, "guessed", "", at.room, at.key[:-1]):
        for name, body in acts.items():
            status, _ = await line.ask(f"/class/{name}", {"room": at.room} | body)
            got[str(status)] += 1
    line.close()
    return dict(got)


async def second_answers(at: Class) -> Got:
    """A student's browser sends forty answers at once, from as many tabs."""
    body = {"room": at.room, "value": 0} | QUESTION
    lines = [Line(at.address, at.source, at.token) for _ in range(40)]
    answers = await asyncio.gather(*(line.ask("/class/answer", body) for line in lines))
    for line in lines:
        line.close()
    return dict(Counter(str(status) for status, _ in answers))


async def answers_elsewhere(at: Class) -> Got:
    """Answers to questions that are over, to come, of another lesson, and to none."""
    got, line = Counter[str](), Line(at.address, at.source, at.token)
    for lesson, step in (
        ("trees", 3),
        ("trees", 0),
        ("race", 1),
        ("nothing", 1),
        ("trees", 99),
        ("trees", -1),
    ):
        status, _ = await line.ask(
            "/class/answer", {"room": at.room, "lesson": lesson, "step": step, "value": 0}
        )
        got[str(status)] += 1
    line.close()
    return dict(got)


async def huge_values(at: Class) -> Got:
    """Names, codes, words and bodies of up to 400 kB, and deep ones."""
    got, line = Counter[str](), Line(at.address, at.source, at.token)
    bodies: list[tuple[str, Any]] = [
        (name, {"room": at.room, key: "x" * size, "step": 1, "number": 1, "value": 0})
        for name, key in (("join", "room"), ("answer", "lesson"), ("propose", "text"), ("draft", "prompt"))
        for size in (500, 50_000, 400_000)
    ]
    nested = json.loads("[" * 400 + "]" * 400)
    for name, body in [*bodies, ("answer", {"room": at.room, "value": nested} | QUESTION)]:
        try:
            status, _ = await line.ask(f"/class/{name}", body)
        except OSError:
            status = 0  # the connection was cut
            line.close()
        got[str(status)] += 1
    line.close()
    return dict(got)


async def many_rooms(at: Class) -> Got:
    """Ten thousand rooms are opened, fifty each from 200 addresses; then a teacher wants one."""
    got = Counter[str]()

    async def opens(source: str, times: int) -> Counter[str]:
        line = Line(at.address, source)
        statuses = Counter([str((await line.ask("/class/open", {}))[0]) for _ in range(times)])
        line.close()
        return statuses

    for statuses in await asyncio.gather(*(opens(f"127.0.5.{n + 1}", 50) for n in range(200))):
        got += statuses
    return {"rooms": dict(got), "a_teacher": dict(await opens("127.0.6.1", 1))}


async def joining_flood(at: Class) -> Got:
    """Somebody joins the class's room again and again."""

    async def ask(line: Line, _: int) -> int:
        return (await line.ask("/class/join", {"room": at.room}))[0]

    return await _flood(at, ask)


async def page_flood(at: Class) -> Got:
    """Somebody opens the student's page again and again."""

    async def ask(line: Line, _: int) -> int:
        return (await line.ask("/class"))[0]

    return await _flood(at, ask)


async def waiting_lines(at: Class) -> Got:
    """A student's browser waits for news in five hundred tabs."""
    lines = [Line(at.address, at.source, at.token) for _ in range(500)]
    _, state = await lines[0].ask(f"/class/now?room={at.room}")
    path = f"/class/now?room={at.room}&since={state['version']}"
    answers = await asyncio.gather(*(line.ask(path) for line in lines), return_exceptions=True)
    for line in lines:
        line.close()
    return dict(Counter("no answer" if isinstance(each, BaseException) else str(each[0]) for each in answers))


STILL = [wrong_keys, second_answers, answers_elsewhere, huge_values]
"""Tried while a question is open."""
FLOODS = [waiting_lines, page_flood, guessed_codes, joining_flood, many_rooms]
"""Tried while the lecturer leads on."""


# ---------------------------------------------------------------- the class beside it


class Attending:
    """A student who follows the lecturer. at: the step that the student sees."""

    def __init__(self, line: Line, room: str):
        self.line, self.room, self.at = line, room, -1

    async def attend(self) -> None:
        """Wait for news as the page does, and try again after a failure."""
        since: Any = ""
        while True:
            status, state = await self.line.ask(f"/class/now?room={self.room}&since={since}")
            if status == 200:
                self.at, since = state["place"]["step"], state["version"]
            await asyncio.sleep(0.3 if status == 200 else 1.5)


async def _led(lecturer: Line, room: str, students: list[Attending], step: int) -> float:
    """Seconds from the lecturer's step to the last student."""
    start = time.monotonic()
    while (await lecturer.ask("/class/step", {"room": room, "lesson": "trees", "step": step}))[0] != 200:
        await asyncio.sleep(0.2)
    await until(lambda: all(student.at == step for student in students), 120)
    return time.monotonic() - start


async def _beside(
    attempt: Awaitable[Got], lead: Callable[[int], Awaitable[float]]
) -> tuple[Got, list[float]]:
    """An attempt's result, and the steps that were led meanwhile."""
    trying, delays = asyncio.ensure_future(attempt), []
    while not trying.done() or not delays:
        delays.append(await lead(1 + len(delays) % 2))
        await asyncio.sleep(0.5)
    return await trying, delays


async def _late(at: Class) -> Got:
    """Five students arrive after the attempt and try every second. Returns how many got in, and their
    seconds."""
    start, line, got = time.monotonic(), Line(at.address, at.source), 0
    while got < 5 and time.monotonic() - start < PATIENCE:
        status, _ = await line.ask("/class/join", {"room": at.room})
        got += status == 200
        await asyncio.sleep(0 if status == 200 else 1)
    line.close()
    return {"joined": got, "of": 5, "seconds": time.monotonic() - start}


async def tried(address: str, server: psutil.Process) -> dict[str, Any]:
    """Make all attempts, one after the other, each beside its class."""
    async with client(address) as http:
        await Site(address).generate(http, length=2)  # loads the models
    results = {}
    for number, attempt in enumerate([*STILL, *FLOODS], start=1):
        got = await _one(address, f"127.0.7.{number}", attempt, server)
        results[attempt.__name__] = {"what": inspect.getdoc(attempt)} | got
    return results


async def _one(
    address: str, source: str, attempt: Callable[[Class], Awaitable[Got]], server: psutil.Process
) -> Got:
    lecturer = Line(address, source)
    _, opened = await lecturer.ask("/class/open", {})
    lecturer.token, room = opened["key"], opened["room"]
    students = [Attending(student.looks, room) for student in await joined(address, room, STUDENTS, source)]
    await lecturer.ask("/class/step", {"room": room} | QUESTION)
    at = Class(address, source, room, lecturer.token, students[0].line.token)
    resting = server.memory_info().rss
    if attempt in STILL:
        got: Got = {"got": await attempt(at)}
        got["answered"] = (await lecturer.ask(f"/class/now?room={room}"))[1]["answered"]
    else:
        attending = [asyncio.create_task(student.attend()) for student in students]
        said, delays = await _beside(attempt(at), lambda step: _led(lecturer, room, students, step))
        for task in attending:
            task.cancel()
        got = {"got": said, "steps": len(delays), "slowest_step_seconds": max(delays)}
        got["who_comes_then"] = await _late(at)
    await lecturer.ask("/class/close", {"room": room})
    for line in (lecturer, *(student.line for student in students)):
        line.close()
    return got | {"server_grew_by_megabytes": (server.memory_info().rss - resting) >> 20}


def main(arguments: list[str] | None = None) -> None:
    """Serve, try, and write the report."""
    parser = argparse.ArgumentParser(description="What can be tried against a class.")
    parser.add_argument(
        "--out", default=RESULTS / "class_abuse.json", help="JSON file (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    with serving() as (address, process):
        write(options.out, {"students": STUDENTS} | asyncio.run(tried(address, process)))


if __name__ == "__main__":
    main()
