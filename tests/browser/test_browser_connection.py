"""The page while the connection to the server is lost."""

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.conftest import SLOW, enter, generate, go, ready

LONG = "topology=batch&k=64&temperature=2&length=400&seed=0&baseline=0"
"""A run of 200 slow rounds, which even a busy browser sees while it runs."""
CATCH = """() => {
  const Source = EventSource;
  window.EventSource = class extends Source {
    constructor(...address) {
      super(...address);
      window.cut = () => this.dispatchEvent(new Event("error"));
    }
  };
}"""
"""Cuts an open stream as the browser does without a network. An offline context only stops new requests."""
IS_ON_TOP = """(button) => {
  const { x, y, width, height } = button.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === button;
}"""


def told_once(page):
    """The page says once that the connection is lost, and nothing covers Generate."""
    expect(page.locator("#feed .run-error")).to_contain_text("The connection to the server is lost")
    expect(page.locator("[role=alert]:visible, .toast-wrap:visible")).to_have_count(1)
    expect(page.locator("#feed .run-status, #replay .look", has_text="You changed")).to_have_count(0)
    expect(page.locator("#generate")).to_be_enabled()
    assert page.locator("#generate").evaluate(IS_ON_TOP)


@contextmanager
def offline(page):
    page.context.set_offline(True)
    try:
        yield
    finally:
        page.context.set_offline(False)


def goes_on(page):
    page.get_by_role("button", name="Go on").click()
    page.wait_for_function("document.body.dataset.phase === 'running'", timeout=6 * SLOW)
    expect(page.locator("[role=alert]:visible")).to_have_count(0)
    expect(page.locator("#feed .go-on")).to_be_hidden()


@pytest.mark.parametrize("when", ["before the run", "in the middle of the run"])
def test_a_browser_without_a_network_says_so_once_and_goes_on_later(blank, url, when):
    page = go(blank, f"{url}/?{LONG}")
    page.evaluate(CATCH)
    enter(page.locator("#seed input"), "")  # each press of Generate draws a seed
    enter(page.locator("#prompt textarea"), "the cat")  # another prompt than that of the recorded run
    if when != "before the run":
        generate(page, until="running")
        page.wait_for_function("specdec.store.state.rounds.length > 3")
    with offline(page):
        if when == "before the run":
            generate(page, until="error")
        else:
            page.evaluate("window.cut()")
        told_once(page)
        rounds = page.evaluate("specdec.store.state.rounds.length")
        seed = page.evaluate("specdec.store.state.setup.seed")
        page.get_by_role("button", name="Go on").click()
        told_once(page)
        assert page.evaluate("specdec.store.state.rounds.length") == rounds
    goes_on(page)
    if when != "before the run":
        assert page.evaluate("specdec.store.state.setup.seed") == seed


def test_a_stream_that_breaks_as_it_opens_is_told_once_and_the_page_goes_on(blank, url):
    page = go(blank, f"{url}/?{LONG}")
    page.route("**/call/v2/decode/*", lambda route: route.abort())
    generate(page, until="error")
    told_once(page)
    page.unroute("**/call/v2/decode/*")
    goes_on(page)


def test_a_panel_whose_script_did_not_come_works_once_the_connection_is_back(someone, url):
    page = someone(url)
    ready(page)
    verdict = page.locator("#tab-race .verdict").first
    with offline(page):
        with page.expect_event("requestfailed", lambda request: "race_lab/panel.js" in request.url):
            page.get_by_role("tab", name="Understand").click()
            page.get_by_role("tab", name="Race lab").click()
        expect(verdict).to_be_empty()
    expect(verdict).to_contain_text("arrives first")


def test_a_prompt_that_is_typed_before_the_opening_run_has_come_stays(blank, url):
    held, released = [], False
    blank.route("**/traces/**", lambda route: route.continue_() if released else held.append(route))
    blank.goto(url)
    enter(blank.locator("#prompt textarea"), "the cat")
    assert held, "the page waits for its opening run"
    released = True
    for route in held:
        route.continue_()
    ready(blank)
    expect(blank.locator("#prompt textarea")).to_have_value("the cat")
