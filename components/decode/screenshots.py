"""Take the README's pictures: `python -m components.decode.screenshots`. It needs Playwright and Chromium.

The command starts a server of this page with SmolLM2. It writes to `assets/screenshots` still pictures, and a
moving picture of the opening.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from io import BytesIO
from typing import Any

from components.page.assets import ASSETS

FOLDER = ASSETS / "screenshots"
SIZE: Any = {"width": 1440, "height": 900}
PICTURES = {
    "desktop": ("", "window.specdec?.store.state.recorded && document.querySelector('#tree .drawing .node')"),
    "compare": ("?tab=compare", "document.querySelectorAll('#compare .tokens .token').length > 100"),
}
"""For each picture, by name: the address of the page, and a JavaScript condition that must hold before the
picture is taken."""
MOVING = "opening.webp"
"""The moving picture of the page's first seconds, as a new visitor sees them."""
_SECONDS, _EVERY = 22, 0.25
_START = 120.0  # seconds in which the server must answer
_MOVING_SIZE: Any = {"width": 1120, "height": 720}
_MOST_BYTES = 1_500_000
_LOADED = "document.querySelector('#generate') && !document.body.hasAttribute('data-loading')"
_MOST = 300_000  # milliseconds


def take() -> None:
    """Write all pictures. ValueError if Playwright or Chromium is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ValueError("the screenshots need Playwright: pip install playwright") from error
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise ValueError("the screenshots need Chromium; if it is not on the path, set CHROMIUM to its place")
    command = [sys.executable, "-u", str(ASSETS.parent / "app.py"), "--pair", "smollm2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(_START, server.kill)
    timer.start()
    try:
        address = _address(server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            look = {"viewport": SIZE, "reduced_motion": "reduce", "color_scheme": "light"}
            # Playwright waits by scripts that the page's policy forbids
            context = browser.new_context(**look, bypass_csp=True)
            _shoot(context.new_page(), address)
            new = browser.new_context(viewport=_MOVING_SIZE, color_scheme="light", bypass_csp=True)
            _film(new.new_page(), address)
            browser.close()
    finally:
        timer.cancel()
        server.terminate()
        server.wait()


def _shoot(page: Any, address: str) -> None:
    page.set_default_timeout(_MOST)
    for name, (query, condition) in PICTURES.items():
        page.goto(address + query)
        page.wait_for_function(condition)
        page.wait_for_function(_LOADED)
        page.keyboard.press("Escape")  # ends the animation that the page starts with
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # until fonts are loaded and transitions have ended
        page.screenshot(path=FOLDER / f"{name}.png")
        print(f"written: {name}.png", flush=True)


def _film(page: Any, address: str) -> None:
    """Write the moving picture. ValueError if it is too large."""
    from PIL import Image

    page.goto(address)
    page.wait_for_selector("[data-stage=line]")
    frames, times = [], []
    film_start = time.monotonic()
    while (now := time.monotonic() - film_start) < _SECONDS:
        frames.append(Image.open(BytesIO(page.screenshot(type="png"))))
        times.append(now)
        page.wait_for_timeout(max(0.0, 1000 * (_EVERY - (time.monotonic() - film_start - now))))
    ends = [*times[1:], _SECONDS + 3]
    milliseconds = [round(1000 * (end - start)) for start, end in zip(times, ends, strict=True)]
    options: dict[str, Any] = {"duration": milliseconds, "loop": 0, "quality": 40, "method": 4}
    frames[0].save(FOLDER / MOVING, save_all=True, append_images=frames[1:], **options)
    size = (FOLDER / MOVING).stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"{MOVING} has {size:,} bytes, more than {_MOST_BYTES:,}: take fewer frames")
    print(f"written: {MOVING}, {len(frames)} frames, {size:,} bytes", flush=True)


def _address(server: subprocess.Popen[str]) -> str:
    """The server's address. The server prints it as soon as it answers requests.

    ValueError if the server ends before.
    """
    for line in server.stdout or ():
        if match := re.search(r"http://\S+", line):
            return f"{match[0].rstrip('/')}/"
    raise ValueError("the server ended before it answered")


if __name__ == "__main__":
    take()
