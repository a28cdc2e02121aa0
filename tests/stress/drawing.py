"""What the page weighs and how smoothly it draws, in headless Chromium, which paints in software.

    python -m tests.stress.drawing

Each repeat opens the page as a new visitor with nothing in the cache, decodes 300 tokens, and plays them:

opened  bytes and requests of the first load, and milliseconds to the first token of the recorded run that
        plays by itself
phone   the same on a slow phone: 1.6 Mbit/s, answers 150 ms later, and a quarter of this processor
running frames a second (of 60) from Generate to the last token
playing the same while the run is played at ten rounds a second, for some seconds

All on the cores that decode.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.conftest import CHROMIUM, FLAGS, PHONE, SLOW, viewport
from tests.stress.visitors import PROMPT, options, serving, write

SCREEN = (1280, 720)
SLOW_LINE = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 90_000}
"""Milliseconds, and bytes per second."""
LENGTH = 300
SETTLED = 4000
"""Milliseconds after which a page no longer moves."""
PLAYED = 8000
"""Milliseconds of playing that are measured."""
SETUP = {"prompt": PROMPT, "length": LENGTH, "seed": 6, "k": 8, "topology": "sequence", "baseline": 0}

_FIRST_TOKEN = """new MutationObserver((_, observer) => {
  if (!document.querySelector("#text .tokens .token")) return;
  window.firstToken = performance.now();
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });"""
_WATCH = """() => {
  window.framesSeen = [];
  const frame = (now) => { window.framesSeen.push(now); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""
# A promise, so that no other script runs in the page meanwhile.
_GENERATE = """() => new Promise((done, failed) => {
  window.framesSeen.length = 0;
  const { store } = window.specdec;
  const before = store.state.run;
  store.subscribe(({ run, phase, message }) => {
    if (phase === "error") failed(new Error(message));
    if (run !== before && phase === "done") done();
  });
  document.querySelector("#generate").click();
})"""
_PLAY = """async (milliseconds) => {
  const speed = document.querySelector("#stepper .speed");
  speed.value = "fastest";
  speed.dispatchEvent(new Event("change"));
  window.framesSeen.length = 0;
  document.querySelector("#stepper .play").click();
  await new Promise((done) => setTimeout(done, milliseconds));
}"""


@contextmanager
def chromium(pair: str = "stories") -> Iterator[tuple[Browser, str]]:
    """A browser, and the address of a server that decodes on one thread: the other core is the browser's."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with serving(pair=pair) as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser, address
        browser.close()


@contextmanager
def visiting(browser: Browser, screen: tuple[int, int], patience: float = SLOW) -> Iterator[Page]:
    """The page of a new visitor. patience: milliseconds until a wait fails."""
    context = browser.new_context(bypass_csp=True, viewport=viewport(screen))
    context.set_default_timeout(patience)
    yield context.new_page()
    context.close()


def opened(page: Page, devtools: CDPSession, address: str) -> dict[str, float]:
    """Measure the first load: the transferred bytes, and the time until something can be read."""
    sizes: list[float] = []
    devtools.send("Network.enable")
    devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.add_init_script(_FIRST_TOKEN)
    page.goto(address)
    page.wait_for_function("window.firstToken")
    page.wait_for_timeout(SETTLED)
    first = page.evaluate("window.firstToken")
    return {"requests": len(sizes), "kilobytes_sent": sum(sizes) / 1000, "first_token_ms": first}


def phone(browser: Browser, address: str) -> dict[str, float]:
    """Measure the first load on a slow phone."""
    with visiting(browser, PHONE, 4 * SLOW) as page:
        devtools = page.context.new_cdp_session(page)
        devtools.send("Network.emulateNetworkConditions", SLOW_LINE)
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        return opened(page, devtools, address)


def drawn(page: Page, act: Callable[[], Any]) -> dict[str, float]:
    """Frames a second during an activity of the page."""
    act()
    frames = page.evaluate("window.framesSeen")
    return {"frames_per_second": 1000 * (len(frames) - 1) / (frames[-1] - frames[0])}


def visit(browser: Browser, address: str) -> dict[str, dict[str, float]]:
    """One new visitor opens the page, and decodes and plays a run."""
    with visiting(browser, SCREEN) as page:
        figures = {"opened": opened(page, page.context.new_cdp_session(page), address)}
        page.goto(f"{address}/?{urlencode(SETUP)}")
        page.wait_for_function("window.specdec")
        page.wait_for_timeout(SETTLED)
        page.evaluate(_WATCH)
        figures["running"] = drawn(page, lambda: page.evaluate(_GENERATE))
        figures["playing"] = drawn(page, lambda: page.evaluate(_PLAY, PLAYED))
    return figures | {"phone": phone(browser, address)}


def medians(visits: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The median of each figure."""
    return {
        part: {name: statistics.median(each[part][name] for each in visits) for name in figures}
        for part, figures in visits[0].items()
    }


def main() -> None:
    """Serve, visit, and write the report."""
    about = "Weight of the page, and how smoothly it draws."
    arguments = options(about, "drawing.json", repeats=(5, "visits"))
    with chromium() as (browser, address):
        load = os.getloadavg()[0]
        figures = medians([visit(browser, address) for _ in range(arguments.repeats)])
        write(arguments.out, {"load": load, "repeats": arguments.repeats, "now": figures})


if __name__ == "__main__":
    main()
