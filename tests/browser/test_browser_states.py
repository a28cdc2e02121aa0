"""At rest, running or done: axe finds nothing serious on any tab, and every term has its dotted line."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.conftest import pointed_at, ready, serious_findings

pytestmark = pytest.mark.browser

REST = {
    "live": "#tree .drawing .node",
    "compare": "#compare .story .token",
    "draft": "#be_draft .play",
    "race": "#race_lab .lane",
    "trees": "#tree_lab .node",
    "losslessness": "#lossless .outcome",
    "experiments": "#experiments_lab .main-svg",
    "codecs": "#codec_lab .sent",
    "lessons": "#lessons .card h3",
}
"""What is there when a tab has opened."""
RUNS = {
    "live": ("#generate", "document.body.dataset.phase"),
    "compare": ("#compare .run", "window.specdec.compare.state.phase"),
    "losslessness": ("#lossless-run", "document.body.dataset.check"),
}
"""What begins a run, and how it stands."""


@pytest.fixture
def opened(blank, url):
    def open_tab(tab, query):
        blank.goto(f"{url}/?tab={tab}&{query}")
        ready(blank)
        blank.wait_for_selector(REST[tab], state="attached")
        return blank

    return open_tab


def fine(page):
    """Nothing serious, and no term without its line."""
    assert serious_findings(page) == []
    assert pointed_at(page)[1] == []


@pytest.mark.parametrize("tab", REST)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_tab_at_rest(opened, tab, theme):
    page = opened(tab, f"__theme={theme}")
    if tab == "live":
        page.wait_for_function("document.querySelector('#stepper .play .word').textContent === 'play'")
    fine(page)


@pytest.mark.parametrize("tab", RUNS)
def test_a_tab_while_it_runs_and_when_it_is_done(opened, tab):
    page = opened(tab, "")
    button, phase = RUNS[tab]
    page.locator(button).click()
    page.wait_for_function(f"{phase} === 'running'")
    assert serious_findings(page) == []
    page.wait_for_function(f"{phase} === 'done'")
    expect(page.locator(button)).to_be_enabled()  # its colour comes back then
    fine(page)


def test_a_story_that_a_visitor_drafts(opened):
    page = opened("draft", "")
    page.locator("#be_draft input.typed").fill("and")
    page.keyboard.press("Enter")
    page.wait_for_selector("#be_draft .writing .token")
    fine(page)
