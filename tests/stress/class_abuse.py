"""Floods against a class from its own address: `python -m tests.stress.class_abuse`, two minutes.

Each comes from the address that the class shares, as behind one router or an unstated proxy, while a
lecturer leads thirty students there from question to question: their slowest step stands beside it. Tests in
`tests/classroom` cover wrong keys, second answers and huge values.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import psutil

from components.classroom import web
from components.classroom.rooms import ALPHABET, LENGTH
from components.guard import limits
from tests.stress.classroom import STEPS, taught
from tests.stress.students import Line, joined
from tests.stress.visitors import RESULTS, Site, client, serving, write

SECONDS = 12.0
"""Of an attempt that goes on."""
WORKERS = 16
PATIENCE = 90.0
"""Seconds that whoever comes afterwards tries to join."""
STUDENTS = 30


class Class(NamedTuple):
    """The class: server, the address that all come from, code, the abuser's token."""

    address: str
    source: str
    room: str
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


FLOODS = [waiting_lines, page_flood, guessed_codes, joining_flood, many_rooms]


async def _late(at: Class) -> Got:
    """Five students arrive after the flood and try every second. Returns how many got in, and when."""
    start, line, got = time.monotonic(), Line(at.address, at.source), 0
    while got < 5 and time.monotonic() - start < PATIENCE:
        status, _ = await line.ask("/class/join", {"room": at.room})
        got += status == 200
        await asyncio.sleep(0 if status == 200 else 1)
    line.close()
    return {"joined": got, "of": 5, "seconds": time.monotonic() - start}


async def tried(address: str, server: psutil.Process) -> dict[str, Any]:
    """Make all floods, one after the other, each beside its class."""
    async with client(address) as http:
        await Site(address).generate(http, length=2)  # loads the models
    results = {}
    for number, flood in enumerate(FLOODS, start=1):
        source, got = f"127.0.7.{number}", {}

        async def beside(room: str, _: str, flood: Any = flood, source: str = source, got: Got = got) -> None:
            [abuser] = await joined(address, room, 1, source)  # pays for the flood, as one of the class
            at = Class(address, source, room, abuser.looks.token)
            got["got"] = await flood(at)
            got["who_comes_then"] = await _late(at)

        resting = server.memory_info().rss
        lesson = await taught(address, server, STUDENTS, STEPS[:8], source=source, beside=beside)
        grown = (server.memory_info().rss - resting) >> 20
        slowest = max(map(max, lesson.delays))
        steps = {"steps": len(lesson.delays), "slowest_step_seconds": slowest}
        what = {"what": inspect.getdoc(flood)}
        results[flood.__name__] = what | got | steps | {"server_grew_by_megabytes": grown}
    return results


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
