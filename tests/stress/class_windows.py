"""A class led from a real page: four browsers, and 200 students without one, in the same room.

    python -m tests.stress.class_windows

    lecturer    a browser with two windows, 1280 x 720: the page, and the page in projector mode
    students    three browsers: a phone, a laptop, a tablet in the dark; and as many lines as are asked for

Somebody clicks in the lecturer's window; each window notes when its words and its histogram are drawn. All
clocks are this machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any, NamedTuple

import psutil
from playwright.async_api import Browser, Page, Playwright, async_playwright

from components.lessons import panel as lessons
from tests.conftest import CHROMIUM, FLAGS, SLOW
from tests.stress.students import Student, joined, until
from tests.stress.visitors import RESULTS, Site, client, serving, write

SCREEN = {"width": 1280, "height": 720}
DEVICES: dict[str, dict[str, Any]] = {
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "laptop": {"viewport": SCREEN},
    "tablet_dark": {"viewport": {"width": 820, "height": 1180}, "color_scheme": "dark"},
}
_WATCH = """() => {
  const lesson = document.querySelector(".lesson");
  const drawn = (window.drawn = []);
  window.clicked = 0;
  addEventListener("click", () => (window.clicked = Date.now()), { capture: true });
  const shows = () => [...lesson.querySelectorAll(".drawn .sum")].some((sum) => sum.checkVisibility());
  let last = "";
  const look = () => {
    const seen = [lesson.querySelector(".words").textContent, shows()];
    if (seen.join() === last) return;
    last = seen.join();
    requestAnimationFrame(() => setTimeout(() => drawn.push([Date.now(), ...seen])));
  };
  const any = { childList: true, characterData: true, subtree: true, attributeFilter: ["hidden"] };
  new MutationObserver(look).observe(lesson, any);
}"""


class Step(NamedTuple):
    """The text that all windows must show. shown: with the class's answers; asks: the step has an open
    question."""

    lesson: str
    step: int
    words: str
    shown: bool = False
    asks: bool = False


@dataclass
class Windows:
    """The pages by their names. delays: for each step, the seconds from the lecturer's click until each
    window has drawn and each student without a browser has the news; counted: seconds until the lecturer sees
    that all have answered."""

    pages: dict[str, Page]
    delays: dict[str, list[float]] = field(default_factory=dict)
    to_lines: list[list[float]] = field(default_factory=list)
    counted: list[float] = field(default_factory=list)

    @property
    def lecturer(self) -> Page:
        """The lecturer's pages."""
        return self.pages["lecturer"]

    @property
    def students(self) -> list[Page]:
        """The students' pages."""
        return [self.pages[name] for name in DEVICES]


def taught(first: int | None) -> Iterator[Step]:
    """Lead a class through this many lessons, or all if None, in the order of the page's button."""
    for lesson in lessons.lessons()[:first]:
        questions = lesson["questions"]
        yield Step(lesson["id"], 0, lesson["read"].replace("\n", ""))
        for step, question in enumerate(questions, start=1):
            yield Step(lesson["id"], step, question["ask"], asks=True)
            yield Step(lesson["id"], step, question["ask"], shown=True)
        yield Step(lesson["id"], len(questions) + 1, lesson["gist"])


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[tuple[Windows, str]]:
    """The lecturer's windows with an open room, its code, and three students in it."""
    async with async_playwright() as playwright:
        teaching = await _browser(playwright)
        lecturer = await _page(teaching, f"{address}/?tab=lessons", viewport=SCREEN)
        await lecturer.get_by_role("button", name="Open a room").click()
        await lecturer.wait_for_selector(".class-join[open] .qr svg")
        code = (await lecturer.locator(".class-join .code").inner_text()).replace(" ", "")
        await lecturer.locator(".class-join .close").click()
        projector = await lecturer.context.new_page()
        await projector.goto(f"{address}/?projector=1")
        pages = {"lecturer": lecturer, "projector": projector}
        for name, device in DEVICES.items():
            pages[name] = await _page(await _browser(playwright), f"{address}/class?room={code}", **device)
            await pages[name].wait_for_selector(".lesson h2")
        await projector.wait_for_selector(".class-chip:not([hidden])", state="attached")
        for page in pages.values():
            await page.evaluate(_WATCH)
        yield Windows(pages), code
        await lecturer.evaluate("document.querySelector('.teach .end').click()")


async def _browser(playwright: Playwright) -> Browser:
    return await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


async def _page(browser: Browser, address: str, **device: Any) -> Page:
    context = await browser.new_context(**device)
    context.set_default_timeout(SLOW)
    page = await context.new_page()
    await page.goto(address)
    return page


async def led(windows: Windows, lines: list[Student], step: Step) -> None:
    """Make one click of the lecturer and wait until all windows have drawn its result."""
    lecturer = windows.lecturer
    button = ".class .reveal" if step.shown else ".next"
    begun = await lecturer.locator("#lesson .lesson[hidden]").count() == 0
    await lecturer.locator(f"#lesson {button}" if begun else ".lessons .start >> nth=0").click()
    clicked = await lecturer.evaluate("window.clicked") / 1000
    for name, page in windows.pages.items():
        seen = await page.wait_for_function(
            "([words, shown]) => window.drawn.find(([, text, sum]) => text.includes(words) && sum === shown)",
            arg=[step.words, step.shown],
        )
        windows.delays.setdefault(name, []).append((await seen.json_value())[0] / 1000 - clicked)
    place = (step.lesson, step.step, step.shown)
    await until(lambda: all(place in line.arrived for line in lines))
    since = time.time() - time.monotonic() - clicked
    windows.to_lines.append([line.arrived[place] + since for line in lines])


async def answered(windows: Windows, lines: int) -> None:
    """Let the students in browsers answer, and wait until the lecturer sees that all did."""
    for page in windows.students:
        slider = page.locator(".number input")
        if await slider.count():
            await slider.fill(await slider.get_attribute("max") or "")
        else:
            await page.locator(".option input").first.check()
        await page.locator(".answer .reveal").click()
    sent = time.monotonic()
    number = lines + len(windows.students)
    await windows.lecturer.wait_for_function(
        "text => document.querySelector('.class .answered').textContent === text",
        arg=f"{number} of {number} have answered",
    )
    windows.counted.append(time.monotonic() - sent)


async def measured(
    address: str, server: psutil.Process, number: int, first: int | None = None
) -> dict[str, Any]:
    """Lead the class through the first lessons, or all if None, with this many students besides the three."""
    async with opened(address) as (windows, code):
        lines = await joined(address, code, number)
        attending = [asyncio.create_task(line.attend(None)) for line in lines]
        start, used = time.monotonic(), sum(server.cpu_times()[:2])
        for step in taught(first):
            await led(windows, lines, step)
            if step.asks:
                await answered(windows, number)
        seconds, used = time.monotonic() - start, sum(server.cpu_times()[:2]) - used
        heaps = {name: await _megabytes(page) for name, page in windows.pages.items()}
    await asyncio.gather(*attending)
    return report(windows, lines) | {
        "page_heap_megabytes": heaps,
        "server_megabytes": server.memory_info().rss >> 20,
        "server_processor_share": used / seconds,
    }


async def _megabytes(page: Page) -> float:
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("HeapProfiler.collectGarbage")
    megabytes = (await devtools.send("Runtime.getHeapUsage"))["usedSize"] / 1e6
    await devtools.detach()
    return megabytes


def report(windows: Windows, lines: list[Student]) -> dict[str, Any]:
    """The report: seconds from the lecturer's click until each window has drawn and all students have the
    news, and the slower of both."""
    of_students = [mean(windows.delays[name]) for name in DEVICES]
    of_lines = [mean(delays) for delays in zip(*windows.to_lines, strict=True)]
    return {
        "steps": len(windows.to_lines),
        "students": len(lines) + len(DEVICES),
        "seconds_to_a_window": {
            name: {"median": median(delays), "slowest": max(delays)}
            for name, delays in windows.delays.items()
        },
        "seconds_to_all_lines": {
            "median": median(map(max, windows.to_lines)),
            "slowest": max(map(max, windows.to_lines)),
        },
        "slowest_student_over_median": max(of_lines) / median(of_lines),
        "slowest_browser_over_median_line": max(of_students) / median(of_lines),
        "answers": sum(line.answers for line in lines) + len(DEVICES) * len(windows.counted),
        "refused": [said for line in lines for said in line.refused],
        "seconds_until_the_last_answer_is_counted": median(windows.counted),
    }


async def met(address: str, server: psutil.Process, options: argparse.Namespace) -> dict[str, Any]:
    """Lead the class once the server has loaded its models. load: the machine's load before and after."""
    async with client(address) as http:
        await Site(address).generate(http, length=2)
    before = os.getloadavg()[0]
    figures = await measured(address, server, options.students, options.lessons)
    return figures | {"load": [before, os.getloadavg()[0]]}


def main(arguments: list[str] | None = None) -> None:
    """Serve, teach, and write the report."""
    parser = argparse.ArgumentParser(description="A class with four browsers in it.")
    parser.add_argument("--students", type=int, default=200, help="students without a browser (default: 200)")
    parser.add_argument("--lessons", type=int, help="so many of the first lessons (default: all)")
    parser.add_argument(
        "--out", default=RESULTS / "class_windows.json", help="JSON file (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    random.seed(1)
    with serving() as (address, process):
        write(options.out, asyncio.run(met(address, process, options)))


if __name__ == "__main__":
    main()
