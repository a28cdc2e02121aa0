"""Visitors of a model with one seat: a waiting visitor sees their place, and can use everything else."""

from contextlib import contextmanager

import pytest
from gradio_client import Client
from playwright.sync_api import expect

from tests.conftest import LONG, SLOW, enter, shows, state, wait_for_state
from tests.helpers.spoiled import WRONG, spoiled
from tests.stress.visitors import ROOT, serving


@pytest.fixture(scope="module")
def dying_server():
    """A server of its own, because the shared server has more seats, and its process."""
    with serving("--seats", "1", "--trace-bytes", "300000") as server:
        yield server


@pytest.fixture(scope="module")
def url(dying_server):
    return dying_server[0]


@contextmanager
def others(url, count):
    """Long runs of other visitors, who leave at the end of the test."""
    client = Client(url, verbose=False)
    settings = {"topology": "batch", "k": 64, "max_new_tokens": 400, "baseline": True, "api_name": "/decode"}
    jobs = [client.submit("Once upon a time", **settings) for _ in range(count)]
    for job in jobs:
        next(job)  # the run has begun or waits
    try:
        yield
    finally:
        for job in jobs:
            job.cancel()


def test_a_visitor_who_waits_sees_the_place_and_can_replay_meanwhile(url, page):
    enter(page.locator("#length input[type=number]"), "8")
    with others(url, 2):
        page.locator("#generate").click()
        shows(page, ".run-status", "Waiting for the model: place ")
        page.locator("#replay select").select_option("long-run")
        wait_for_state(page, "recorded?.name === 'long-run'")
        # the visitor's run waits while the recorded run plays
        assert page.evaluate("document.body.dataset.phase") == "waiting"
    wait_for_state(page, "phase === 'done'")
    assert state(page)["recorded"] is None
    assert state(page)["rounds"][-1]["finish"] == "length"


def open_trace(page, text):
    """Open a file and wait until the page has shown the run or an error. Returns the message."""
    page.evaluate("() => { window.specdec.store.state.recorded = null; }")
    file = {"name": "spoiled.json", "mimeType": "application/json", "buffer": text.encode()}
    page.locator("#replay input[type=file]").set_input_files(file)
    message, recorded = "document.querySelector('.replay-error').textContent", "store.state.recorded"
    page.wait_for_function(f"{message} || window.specdec.{recorded}?.name === 'file'")
    return page.locator(".replay-error").text_content()


def test_broken_traces_are_told_and_never_break_the_page(page):
    messages = []
    recorded = (ROOT / "assets" / "traces" / "parting-gsd.json").read_text()
    for text in spoiled(recorded, 12, [*WRONG, "<img src=x onerror=window.hacked=1>"]):
        messages.append(open_trace(page, text))
        for move in ("ArrowRight", "Shift+ArrowRight", "Home"):
            page.keyboard.press(move)
    mistakes = [message for message in messages if message]
    assert len(mistakes) > 5
    assert all("it should be" in message and len(message) < 300 for message in mistakes)
    assert not any("undefined" in message or "TypeError" in message for message in mistakes)
    assert page.evaluate("window.hacked === undefined")
    assert "the file has 0.3 MB; at most 0.3 MB can be opened" in open_trace(page, " " * 300_001)


WORK = {
    "live": ("#generate", "['running', 'done'].includes(document.body.dataset.phase)"),
    "payoff": ("#load-models", "/is loaded/.test(document.querySelector('#models .outcome').textContent)"),
}
"""Tabs with work of the server: the button that begins it, and a script that is true once it goes on."""


def test_a_server_that_dies_is_told_and_its_work_goes_on_once_it_is_back(someone, dying_server):
    """The last test of this file: its server ends here."""
    address, process = dying_server
    pages = {tab: someone(f"{address}/?tab={tab}&{LONG}") for tab in WORK}
    for tab, page in pages.items():
        expect(page.locator(f"#tab-{tab} {WORK[tab][0]}")).to_be_enabled()
        page.wait_for_load_state("networkidle")
    pages["live"].locator("#generate").click()
    wait_for_state(pages["live"], "rounds.length > 2 && !recorded")
    process.suspend()  # otherwise it would load the small pair before it dies
    pages["payoff"].locator("#load-models").click()
    process.kill()
    for page in pages.values():
        expect(page.locator("[role=alert]:visible")).to_contain_text("connection to the server is lost")
    assert pages["live"].locator(".story .token").count() > 2  # the tokens so far stay
    assert pages["live"].evaluate("document.body.dataset.phase") == "error"
    with serving(port=int(address.rpartition(":")[2])):
        for tab, page in pages.items():
            page.locator(".go-on button:visible").click()
            expect(page.locator("[role=alert]:visible")).to_have_count(0)
            page.wait_for_function(WORK[tab][1], timeout=6 * SLOW)
