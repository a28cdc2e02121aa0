"""The page in WebKit, the engine of Safari, whose layout differs from Chromium's in places."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from selenium.webdriver.webkitgtk.options import Options
from selenium.webdriver.webkitgtk.service import Service

from tests.conftest import DESKTOP, OPENED, PHONE, SLOW

pytestmark = pytest.mark.filterwarnings(
    "ignore:setting remote_server_addr:DeprecationWarning"
)  # Selenium's own call
DRIVER = shutil.which("WebKitWebDriver")
BROWSERS = sorted(Path("/usr/lib").glob("*/webkit2gtk-*/MiniBrowser"))
TOLERANCE = 2
"""Pixels by which two places may differ that should be equal."""


@contextmanager
def display():
    """The number of a virtual screen, which WebKit needs."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "2000x1200x24"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as screen:
        os.close(writing)
        try:
            with open(reading) as number:
                yield number.readline().strip()
        finally:
            screen.terminate()


@pytest.fixture(scope="module")
def webkit():
    """WebKit, in a window of the size that `opened` gives it."""
    if DRIVER is None or not BROWSERS or shutil.which("Xvfb") is None:
        if os.environ.get("CI"):
            pytest.fail("WebKit is missing: run sh tests/install_browsers.sh")
        pytest.skip("WebKit is missing: run sh tests/install_browsers.sh")
    options = Options()
    options.binary_location = str(BROWSERS[-1])
    options.add_argument("--automation")
    with display() as number:
        # Without a bus of the desktop nothing is shared with other programs.
        environment = os.environ | {
            "DISPLAY": f":{number}",
            "LIBGL_ALWAYS_SOFTWARE": "1",
            "NO_AT_BRIDGE": "1",
        }
        driver = webdriver.WebKitGTK(options=options, service=Service(DRIVER, env=environment))
        yield driver
        driver.quit()


@pytest.fixture
def opened(webkit, url):
    """Open a tab; after the test, no script of it may have failed."""

    def go(tab, size=DESKTOP, query=""):
        webkit.set_window_size(*size)
        webkit.get(f"{url}/?tab={tab}{query}")
        webkit.execute_script("""
            window.failed = [];
            addEventListener("error", (event) => failed.push(event.message));
            addEventListener("unhandledrejection", (event) => failed.push(String(event.reason)));""")
        until(webkit, f"return document.querySelector({OPENED[tab]!r})")
        return webkit

    yield go
    assert webkit.execute_script("return window.failed") == []


def until(driver, script):
    """What the script returns, as soon as it is true."""
    return WebDriverWait(driver, SLOW / 1000).until(lambda _: driver.execute_script(script))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_tab_opens_and_is_no_wider_than_the_window(opened, size):
    for tab in OPENED:
        page = opened(tab, size)
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth"), tab


def test_a_run_ends_and_lines_tell_accepted_from_rejected_tokens(opened):
    page = opened("live", query="&topology=sequence&k=4&length=40&seed=7")
    page.find_element(By.ID, "generate").click()
    ended = "const { phase } = specdec.store.state; return ['done', 'error'].includes(phase) && phase"
    assert until(page, ended) == "done"
    line = "return getComputedStyle(document.querySelector('#text .legend .token.{}')).textDecorationLine"
    assert page.execute_script(line.format("accepted")) == "underline"
    assert page.execute_script(line.format("rejected")) == "line-through"


def test_a_slide_fills_the_screen_and_a_ring_follows_the_pointer(opened):
    page = opened("race", query="&projector=1")
    place = """
        const zoom = Number(getComputedStyle(document.documentElement).zoom);
        const ring = document.querySelectorAll("#race_lab .lanes .ring")[1].getBoundingClientRect();
        const shell = document.querySelector(".shell").getBoundingClientRect();
        const center = [(ring.left + ring.right) / 2, (ring.top + ring.bottom) / 2];
        return [...center.map((place) => zoom * place), zoom * shell.height - innerHeight];
    """
    left, top, beyond = page.execute_script(place)
    assert abs(beyond) <= TOLERANCE
    actions = ActionBuilder(page)
    actions.pointer_action.move_to_location(round(left), round(top))
    actions.pointer_action.pointer_down()
    actions.pointer_action.move_to_location(round(left) + 100, round(top))
    actions.perform()
    assert abs(page.execute_script(place)[0] - left - 100) <= TOLERANCE
    ActionBuilder(page).clear_actions()


def test_the_figures_of_a_column_are_not_cut_on_a_phone(opened):
    page = opened("compare", PHONE)
    until(
        page,
        """return [...document.querySelectorAll("#compare .tiles dd")].every((figure) => {
        const column = figure.closest(".column").getBoundingClientRect();
        const { right } = figure.getBoundingClientRect();
        return right <= column.right && figure.scrollWidth <= figure.clientWidth + 1;
    })""",
    )
