"""Quick presses in any order: the run that was begun last runs, and the page never waits for a refused
run."""

import json

import pytest
from playwright.sync_api import expect

from tests.conftest import RUNS, enter, generate, go, wait_for_state

PRESS = """async ([start, stop, presses, frames]) => {
  for (const press of presses) {
    const prompt = document.querySelector("#prompt textarea");
    const enter = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true });
    if (press === "enter") prompt.dispatchEvent(enter);
    else document.querySelector(press === "start" ? start : stop).click();
    for (let i = 0; i < frames; i++) await new Promise(requestAnimationFrame);
  }
}"""
"""Press the buttons, with some frames between two presses."""


def open_tab_of(page, url, tab):
    start, stop, state = RUNS[tab]
    go(page, f"{url}/?tab={tab}&length=8&baseline=0&lossless.decodes=500&compare.length=8")
    page.wait_for_function(f"{state}[0]")  # the scripts of the tab have been loaded
    expect(page.locator(start)).to_be_enabled()
    return start, stop, state


def ends(page, start, stop, state):
    """Wait until the run has ended and the buttons show it. Returns its phase and message."""
    page.wait_for_function(f"['done', 'stopped', 'error'].includes({state}[0])", timeout=120_000)
    expect(page.locator(start)).to_be_enabled()
    expect(page.locator(stop)).to_be_disabled()
    return page.evaluate(state)


PRESSES = [(0, "start stop start stop start stop start"), (3, "start stop start"), (0, "start start")]
"""Frames between two presses, and the presses."""
ENTERED = [(2, "enter stop enter"), (2, "start enter enter"), (2, "start stop enter stop stop start")]
"""Enter in the prompt does what Generate does."""


@pytest.mark.parametrize("tab", RUNS)
def test_what_is_begun_after_stop_or_after_a_refused_request_runs(blank, url, tab):
    page = blank
    start, stop, state = open_tab_of(page, url, tab)
    for frames, presses in [*PRESSES, *(ENTERED if tab == "live" else ())]:
        page.evaluate(PRESS, [start, stop, presses.split(), frames])
        assert ends(page, start, stop, state) == ["done", ""], (presses, frames)
    page.route("**/call/v2/*", lambda route: route.fulfill(status=429, json={"detail": "too many"}))
    page.locator(start).click()
    assert ends(page, start, stop, state) == ["error", "too many"]  # told at once
    page.unroute("**/call/v2/*")
    page.locator(start).click()
    assert ends(page, start, stop, state) == ["done", ""]


def test_of_two_quick_presses_on_questions_the_first_one_is_asked_once(blank, url):
    start, stop, state = open_tab_of(blank, url, "live")
    blank.evaluate(
        "document.querySelector('#generate').addEventListener('click', () => (window.clicks += 1))"
    )
    for pressed in ((1, 1), (2, 1)):
        words = blank.evaluate(
            """(pressed) => {
              window.clicks = 0;
              const buttons = document.querySelectorAll("#prompts .stories [data-prompt]");
              for (const i of pressed) buttons[i].click();
              return buttons[pressed[0]].dataset.prompt;
            }""",
            pressed,
        )
        wait_for_state(blank, f"!recorded && setup?.prompt === {json.dumps(words)}")
        assert ends(blank, start, stop, state) == ["done", ""]
        assert blank.evaluate("specdec.store.state.setup.prompt") == words
        assert blank.evaluate("window.clicks") == 1


def test_two_visitors_and_two_tabs_of_one_visitor_who_press_quickly_do_not_hinder_each_other(
    blank, someone, url
):
    other = someone(f"{url}/")
    pages = [blank, other, other.context.new_page()]
    buttons = [open_tab_of(page, url, "live") for page in pages]
    for _ in range(2):
        for page, (start, stop, _) in zip(pages, buttons, strict=True):
            page.evaluate(PRESS, [start, stop, ["start", "stop", "start", "stop", "start"], 1])
    for page, names in zip(pages, buttons, strict=True):
        assert ends(page, *names) == ["done", ""]


def test_a_run_that_is_stopped_before_its_first_token_says_so_and_what_to_press(page):
    status, nothing = page.locator("#feed .run-status"), "Stopped before the first token. Press Generate"
    for run in ("a recorded run", "the visitor's own run"):
        page.route("**/call/v2/*", lambda _: None)  # as while the models of a first start are loaded
        enter(page.locator("#prompt textarea"), f"another prompt than that of {run}")
        page.click("#generate")
        page.wait_for_selector("body[data-phase=waiting]")
        page.click("#stop")
        expect(status).to_contain_text(nothing)
        expect(page.locator("body[data-changed]")).to_have_count(1)
        enter(page.locator("#seed input"), str(len(run)))
        expect(status).to_contain_text("You changed")
        page.unroute("**/call/v2/*")
        if run == "a recorded run":
            enter(page.locator("#length input[type=number]"), "8")
            generate(page)
            expect(status).to_contain_text("Done")
    page.evaluate("specdec.store.receiveAll([JSON.stringify({phase: 'running', rounds: [], setup: null})])")
    page.click("#stop")
    expect(status).to_contain_text(nothing)
