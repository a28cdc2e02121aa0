"""The page while the connection to the server is lost."""

import json
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.conftest import LONG, SLOW, enter, generate, go, ready, state

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
CUT_LATER = """async () => {
  const { state } = specdec.store;
  const isEarly = () => state.phase === "running" && state.rounds.length <= 3;
  while (isEarly()) await new Promise((done) => setTimeout(done, 10));
  return state.phase === "running" && (window.cut(), true);
}"""
"""Cuts the stream in the middle of the run. Returns false if the text has ended before."""
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
        while not page.evaluate(CUT_LATER):  # the text of a drawn seed may be short
            generate(page, until="running")
    with offline(page):
        if when == "before the run":
            generate(page, until="error")
        told_once(page)
        before = state(page)
        page.get_by_role("button", name="Go on").click()
        told_once(page)
        assert len(state(page)["rounds"]) == len(before["rounds"])
    goes_on(page)
    if when != "before the run":
        assert state(page)["setup"]["seed"] == before["setup"]["seed"]
        return
    page.locator("#stop").click()
    page.route("**/call/v2/decode/*", lambda route: route.abort())  # a stream that breaks as it opens
    generate(page, until="error")
    told_once(page)
    page.unroute("**/call/v2/decode/*")
    goes_on(page)


WORK = {
    "compare": ("#compare", "Run", {"phase": "running", "rounds": []}),
    "losslessness": ("#lossless-page", "Run the check", {"phase": "waiting", "waits": True}),
    "payoff": ("#models", "Load and measure", {"status": "loading", "title": "A pair", "models": []}),
}
"""For each tab with work of the server: its panel, the button that begins the work, and a first update."""


def event(kind, value):
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"


@pytest.mark.parametrize("tab", WORK)
def test_work_whose_stream_breaks_in_the_middle_is_offered_again_with_its_settings(open_tab, tab):
    page, bodies, (panel, button, update) = open_tab(tab), [], WORK[tab]
    streamed = event("generating", [json.dumps(update)])

    def answer(route):
        if route.request.method == "POST":
            bodies.append(json.loads(route.request.post_data))
            route.fulfill(json={"event_id": "1"})
        else:
            route.fulfill(content_type="text/event-stream", body=streamed)

    page.route("**/call/v2/**", answer)
    panel = page.locator(panel)
    begin, retry = panel.get_by_role("button", name=button, exact=True), panel.locator(".go-on button")
    expect(begin).to_be_enabled()
    expect(retry).to_be_hidden()
    begin.click()
    expect(panel.get_by_role("alert")).to_contain_text("The connection to the server is lost")
    expect(begin).to_be_enabled()
    expect(panel.locator("progress")).to_be_hidden()
    if tab != "payoff":
        enter(panel.locator("[name=seed], #lossless-seed input"), "77")
    streamed = event("generating", [json.dumps({**update, "phase": "done", "status": "ready", "seconds": 1})])
    streamed += event("complete", [])
    retry.click()
    expect(retry).to_be_hidden()
    expect(panel.locator("[role=alert]:visible")).to_have_count(0)
    expect(begin).to_be_enabled()
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


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
