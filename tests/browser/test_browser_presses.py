"""Quick presses in any order: the run that was begun last runs, and the page never waits for a refused
run."""

import pytest
from playwright.sync_api import expect

from tests.conftest import enter, generate, go

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
AGAIN = ["start", "stop", "start"]
TABS = {
    "live": ("#generate", "#stop", "(({ state: { phase, message } }) => [phase, message])(specdec.store)"),
    "compare": (
        "#compare .run",
        "#compare .stop",
        "(({ phase, message }) => [phase, message])(specdec.compare?.state ?? {})",
    ),
    "losslessness": (
        "#lossless-run",
        "#lossless-stop",
        "[document.body.dataset.check, document.querySelector('.lossless-error').textContent]",
    ),
}
"""For each tab: the buttons that begin and stop a run, and a script for its phase and its message."""


def opened(page, url, tab):
    start, stop, state = TABS[tab]
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


@pytest.mark.parametrize("tab", TABS)
def test_what_is_begun_after_stop_runs(blank, url, tab):
    start, stop, state = opened(blank, url, tab)
    for frames in (0, 3):
        for presses in (AGAIN, [*AGAIN, *AGAIN[1:], *AGAIN[1:]], ["start", "start"]):
            blank.evaluate(PRESS, [start, stop, presses, frames])
            assert ends(blank, start, stop, state) == ["done", ""], (presses, frames)


def test_enter_does_what_generate_does(blank, url):
    start, stop, state = opened(blank, url, "live")
    for presses in ("enter stop enter", "start enter enter", "start stop enter stop stop start"):
        blank.evaluate(PRESS, [start, stop, presses.split(), 2])
        assert ends(blank, start, stop, state) == ["done", ""], presses


CLICKS = """() => {
  window.clicks = 0;
  document.querySelector("#generate").addEventListener("click", () => (window.clicks += 1));
}"""


@pytest.mark.parametrize("pressed", [(1, 1), (1, 2)])
def test_of_two_quick_presses_on_questions_the_first_one_is_asked_once(blank, url, pressed):
    start, stop, state = opened(blank, url, "live")
    blank.evaluate(CLICKS)
    words = blank.evaluate(
        """(pressed) => {
          const buttons = document.querySelectorAll("#prompts .stories [data-prompt]");
          for (const i of pressed) buttons[i].click();
          return buttons[pressed[0]].dataset.prompt;
        }""",
        pressed,
    )
    blank.wait_for_function("!specdec.store.state.recorded")
    assert ends(blank, start, stop, state) == ["done", ""]
    assert blank.evaluate("specdec.store.state.setup.prompt") == words
    assert blank.evaluate("window.clicks") == 1


def test_two_visitors_and_two_tabs_of_one_visitor_who_press_quickly_do_not_hinder_each_other(
    blank, someone, url
):
    other = someone(f"{url}/")
    pages = [blank, other, other.context.new_page()]
    buttons = [opened(page, url, "live") for page in pages]
    for _ in range(2):
        for page, (start, stop, _) in zip(pages, buttons, strict=True):
            page.evaluate(PRESS, [start, stop, [*AGAIN, *AGAIN[1:]], 1])
    for page, names in zip(pages, buttons, strict=True):
        assert ends(page, *names) == ["done", ""]


@pytest.mark.parametrize("tab", TABS)
def test_a_refused_request_is_told_at_once_and_the_next_one_runs(blank, url, tab):
    page = blank
    start, stop, state = opened(page, url, tab)
    page.route("**/call/v2/*", lambda route: route.fulfill(status=429, json={"detail": "too many"}))
    page.locator(start).click()
    phase, message = ends(page, start, stop, state)
    assert phase == "error"
    assert message == "too many"
    page.unroute("**/call/v2/*")
    page.locator(start).click()
    assert ends(page, start, stop, state) == ["done", ""]


def test_a_page_that_is_left_during_a_run_prints_no_error(blank, url):
    page, printed = blank, []
    page.on("console", lambda message: message.type == "error" and printed.append(message.text))
    go(page, f"{url}/?length=400")
    for _ in range(2):
        page.locator("#generate").click()
        page.wait_for_function(
            "(({ rounds, recorded }) => rounds.length > 0 && !recorded)(specdec.store.state)"
        )
        page.reload()
        page.wait_for_function("window.specdec && document.body.dataset.phase === 'idle'")
        expect(page.locator("#generate")).to_be_enabled()
    assert printed == []


def test_while_a_run_waits_the_status_says_so_and_not_the_story_of_the_recorded_run(someone, url):
    page = go(someone(url), url)
    status = page.locator("#feed .run-status")
    expect(status).to_contain_text("reads the large model once", timeout=60_000)
    page.route("**/call/v2/*", lambda _: None)  # the request is still in progress
    page.click("#generate")
    page.wait_for_selector("body[data-phase=waiting]")  # set in the frame that writes the words
    assert status.text_content() == "Waiting for the model …"
    assert status.is_visible()
    page.unroute("**/call/v2/*")  # this sends the request on
    expect(status).to_contain_text("Done", timeout=120_000)


@pytest.mark.parametrize("shown", ["a recorded run", "the visitor's own run"])
def test_a_run_stopped_before_its_first_token_says_so_and_what_to_press(page, shown):
    if shown != "a recorded run":
        generate(page)
    page.route("**/call/v2/*", lambda _: None)  # as while the models of a first start are loaded
    enter(page.locator("#prompt textarea"), "a prompt that is not the shown one")
    page.click("#generate")
    page.wait_for_selector("body[data-phase=waiting]")
    page.click("#stop")
    status, nothing = page.locator("#feed .run-status"), "Stopped before the first token. Press Generate"
    expect(status).to_contain_text(nothing)
    expect(page.locator("body[data-changed]")).to_have_count(1)
    enter(page.locator("#seed input"), "123")
    expect(status).to_contain_text("You changed")
    page.unroute("**/call/v2/*")
    page.evaluate("specdec.store.receiveAll([JSON.stringify({phase: 'running', rounds: [], setup: null})])")
    page.click("#stop")
    expect(status).to_contain_text(nothing)
