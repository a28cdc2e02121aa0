"""Every term of the page is explained in a sentence where it stands."""

from __future__ import annotations

import pytest

from specdec.methods import METHODS
from tests.conftest import ready

pytestmark = pytest.mark.browser

METHOD_NAMES = [entry.name for entry in METHODS.values()]
TERMS = {
    "live": [
        *[
            *METHOD_NAMES,
            "topology",
            "k",
            "baseline",
            "call",
            "block efficiency",
            "acceptance",
            "child index",
        ],
        *["accepted", "rejected", "correction", "bonus", "race", "arrival", "path"],
    ],
    "compare": [*METHOD_NAMES[:3], "topology", "k", "block efficiency", "relative speed", "residual"],
    "draft": ["call", "n-grams", "accepted", "rejected", "correction", "bonus"],
    "race": ["race", "arrival", "GSD", "ERSD", "residual", "TV"],
    "trees": ["acceptance", "child index", "k", "entropy", "block efficiency"],
    "losslessness": [*METHOD_NAMES, "topology", "k", "χ²", "p-value", "call", "law", "watermark"],
    "experiments": ["k", "call"],
    "codecs": ["law", "index", "entropy", "D_KL", "Elias γ"],
}
"""What is explained on each tab, by its name in `assets/shared/glossary.js`."""
WANTED = (
    "ERSD GSD Traversal SpecInfer SpecTr topology k race arrival residual bonus path baseline entropy law"
)

# Points at everything in sight: the sentences that come up, and what brings up one without a dotted line.
POINT = """async () => {
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  const name = loaded.find((name) => name.includes("/glossary.js"));
  const { TERMS } = await import(name);
  const terms = new Map(Object.entries(TERMS).map(([term, sentence]) => [sentence, term]));
  const note = document.querySelector(".term-note");
  const tab = document.querySelector("#tabs > [role=tabpanel]:not([style*='none'])");
  const [found, plain] = [new Set(), new Set()];
  const marked = [...tab.querySelectorAll("[data-term]")]; // first: others change what is said
  for (const element of new Set([...marked, ...tab.querySelectorAll("*")])) {
    if (element.children.length > 0 && !element.matches("[data-term]")) continue;
    if (!element.checkVisibility()) continue;
    element.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    if (note.hidden) continue;
    const term = terms.get(note.textContent);
    found.add(term);
    const lines = [];
    for (let at = element; at !== tab; at = at.parentElement)
      lines.push(getComputedStyle(at).textDecorationLine);
    if (lines.every((line) => line === "none") && !element.matches("input, select, option")) plain.add(term);
  }
  return [[...found], [...plain]];
}"""


def test_what_must_be_explained_is_explained_on_some_tab():
    assert {*WANTED.split(), "block efficiency"} <= {name for names in TERMS.values() for name in names}


@pytest.mark.parametrize("tab", TERMS)
def test_terms_are_explained_where_they_stand(blank, url, tab):
    blank.goto(f"{url}/?tab={tab}" if tab != "live" else url)
    ready(blank)
    blank.wait_for_function(
        "() => document.querySelector(\"#tabs > [role=tabpanel]:not([style*='none']) [data-term]\")"
    )
    if tab == "live":
        blank.locator(".open-settings input").check(force=True)
        blank.locator("#statistics summary").click()
        blank.wait_for_selector("#k input", state="visible")
    blank.wait_for_timeout(500)
    found, plain = blank.evaluate(POINT)
    assert set(TERMS[tab]) <= set(found)
    assert plain == []


def test_a_sentence_comes_by_focus_and_goes_by_escape(blank, url):
    blank.goto(f"{url}/?tab=trees")
    ready(blank)
    blank.locator("#tree_lab [data-term=k]").focus()
    note = blank.locator(".term-note")
    note.wait_for(state="visible")
    assert "target call" in note.text_content()
    assert blank.locator("#tree_lab [data-term=k]").get_attribute("aria-describedby") == "term-note"
    blank.keyboard.press("Escape")
    note.wait_for(state="hidden")
