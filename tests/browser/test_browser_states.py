"""Every tab at rest, during a run and after it: axe finds no serious fault, and each term has its
explanation."""

import pytest
from playwright.sync_api import expect

from specdec.methods import METHODS
from tests.conftest import OPENED, RUNS, closed, enter, pointed_at, serious_findings

TWICE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  return ids.filter((id, i) => id !== "" && ids.indexOf(id) !== i);
}"""
BEGUN = ["waiting", "choosing", "running", "baseline"]


METHOD_NAMES = [entry.name for entry in METHODS.values()]
TERMS = {
    "live": [
        *METHOD_NAMES,
        *("topology", "k", "plain", "call", "block efficiency", "acceptance", "child index"),
        *("accepted", "rejected", "correction", "bonus", "race", "arrival", "path"),
    ],
    "compare": [
        *METHOD_NAMES[1:3],
        *("plain", "topology", "k", "block efficiency", "relative speed", "residual"),
    ],
    "draft": ["call", "n-grams", "accepted", "rejected", "correction", "bonus"],
    "race": ["race", "arrival", "GSD", "ERSD", "residual", "TV"],
    "trees": ["acceptance", "child index", "k", "entropy", "block efficiency"],
    "losslessness": [*METHOD_NAMES, "topology", "k", "χ²", "p-value", "call", "distribution", "watermark"],
    "experiments": ["k", "call"],
    "codecs": ["distribution", "index", "entropy", "D_KL", "Elias γ"],
    "payoff": ["k", "block efficiency", "acceptance", "call", "topology"],
    "lessons": ["ERSD", "GSD", "acceptance", "residual", "path", "k"],
}
"""The explained terms of each tab, by their names in `assets/shared/glossary.js`."""


def fine(page):
    """axe finds nothing serious, no id is there twice, and no term lacks its dotted line. Returns the
    explained terms."""
    assert serious_findings(page) == []
    assert page.evaluate(TWICE) == []
    explained, plain = pointed_at(page)
    assert plain == []
    return set(explained)


@pytest.mark.parametrize("tab", OPENED)
def test_a_tab_at_rest_in_both_themes_while_it_runs_and_when_it_is_done(open_tab, tab):
    page = open_tab(tab, "&payoff.preset=gpu&lossless.decodes=500")
    if tab == "payoff":
        page.wait_for_selector("#payoff .sentences li", state="attached")
    if tab == "live":
        page.wait_for_function("document.querySelector('#stepper .play .word').textContent === 'play'")
    if tab == "trees":  # the entropy is shown once the server has answered
        page.wait_for_selector("#tree_lab [data-term=entropy]", state="visible")
    explained = fine(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("body.dark")
    assert serious_findings(page) == []
    if tab == "live":
        page.locator("#method .more").click()
        page.locator(".open-settings input").check(force=True)
        page.get_by_text("All statistics").click()
        page.wait_for_selector("#k input", state="visible")
        explained |= set(pointed_at(page)[0])
        enter(page.locator("#length input[type=number]"), "16")
        closed(page)
    assert set(TERMS[tab]) <= explained
    page.emulate_media(color_scheme="light")
    if tab == "compare":
        page.locator("#compare [name=length]").fill("12")
    if tab in RUNS:
        begun_and_done(page, *RUNS[tab])
    if tab == "draft":
        page.locator("#be_draft input.typed").fill("and")
        page.keyboard.press("Enter")
        page.wait_for_selector("#be_draft .writing .token")
        fine(page)


def begun_and_done(page, button, phase):
    page.evaluate(  # a short run may end before the test looks
        f"""() => new MutationObserver(() => {{ window.began ||= {BEGUN}.includes({phase}); }})
          .observe(document.documentElement, {{ attributes: true, subtree: true }})"""
    )
    page.locator(button).click()
    page.wait_for_function("window.began")
    assert serious_findings(page) == []
    page.wait_for_function(f"{phase} === 'done'")
    expect(page.locator(button)).to_be_enabled()  # the button gets its colour back then
    fine(page)


def test_a_sentence_comes_by_focus_and_goes_by_escape(open_tab):
    page = open_tab("trees")
    term, note = page.locator("#tree_lab [data-term=k]"), page.locator(".term-note")
    term.focus()
    note.wait_for(state="visible")
    assert "target call" in note.text_content()
    assert term.get_attribute("aria-describedby") == "term-note"
    page.keyboard.press("Escape")
    note.wait_for(state="hidden")
