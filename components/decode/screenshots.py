"""Take the README's screenshots: `python -m components.decode.screenshots`. It needs Playwright and Chromium.

A server of this page with SmolLM2 is started for them, and the pictures are written to `assets/screenshots`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import Any

from components.page.assets import ASSETS

FOLDER = ASSETS / "screenshots"
SIZE: Any = {"width": 1440, "height": 900}
PICTURES = {
    "desktop": ("", "window.specdec?.store.state.recorded && document.querySelector('#tree .drawing .node')"),
    "compare": ("?tab=compare", "document.querySelectorAll('#compare .tokens .token').length > 100"),
}
"""The address of each picture and the condition that it waits for, by name."""
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
        raise ValueError("the screenshots need Chromium; CHROMIUM names it if it is not on the path")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ASSETS.parent / "app.py"), "--pair", "smollm2", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            look = {"viewport": SIZE, "reduced_motion": "reduce", "color_scheme": "light"}
            context = browser.new_context(**look, bypass_csp=True)  # Playwright waits by evaluating texts
            _shoot(context.new_page(), f"http://127.0.0.1:{port}/")
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _shoot(page: Any, address: str) -> None:
    page.set_default_timeout(_MOST)
    _open(page, address)
    for name, (query, there) in PICTURES.items():
        page.goto(address + query)
        page.wait_for_function(there)
        page.wait_for_function(_LOADED)
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # fonts and transitions
        page.screenshot(path=FOLDER / f"{name}.png")
        print(f"written: {name}.png", flush=True)


def _open(page: Any, address: str) -> None:
    """Wait until the server answers."""
    from playwright.sync_api import Error

    for _ in range(600):
        try:
            page.goto(address)
            return
        except Error:
            page.wait_for_timeout(200)
    raise ValueError("the page did not answer within two minutes")


if __name__ == "__main__":
    take()
