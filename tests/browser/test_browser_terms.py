"""Every term of the page is explained in a sentence where it stands."""

from __future__ import annotations

import pytest

from specdec.methods import METHODS
from tests.conftest import pointed_at, ready

pytestmark = pytest.mark.browser

METHOD_NAMES = [entry.name for entry in METHODS.values()]
TERMS = {
    "live": [
        *[
            *METHOD_NAMES,
            "topology",
            "k",
            "plain",
            "call",
            "block efficiency",
            "acceptance",
            "child index",
        ],
        *["accepted", "rejected", "correction", "bonus", "race", "arrival", "path"],
    ],
    "compare": [
        "plain",
        *METHOD_NAMES[1:3],
        "topology",
        "k",
        "block efficiency",
        "relative speed",
        "residual",
    ],
    "draft": ["call", "n-grams", "accepted", "rejected", "correction", "bonus"],
    "race": ["race", "arrival", "GSD", "ERSD", "residual", "TV"],
    "trees": ["acceptance", "child index", "k", "entropy", "block efficiency"],
    "losslessness": [*METHOD_NAMES, "topology", "k", "χ²", "p-value", "call", "law", "watermark"],
    "experiments": ["k", "call"],
    "codecs": ["law", "index", "entropy", "D_KL", "Elias γ"],
    "lessons": ["ERSD", "GSD", "acceptance", "residual", "path", "k"],
}
"""What is explained on each tab, by its name in `assets/shared/glossary.js`."""
WANTED = "ERSD GSD Traversal SpecInfer SpecTr topology k race arrival residual bonus path plain entropy law"


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
        blank.locator("#method .more").click()
        blank.locator(".open-settings input").check(force=True)
        blank.locator("#statistics summary").click()
        blank.wait_for_selector("#k input", state="visible")
    blank.wait_for_timeout(500)
    if tab == "trees":  # the entropy stands there once the server has answered
        blank.wait_for_selector("#tree_lab [data-term=entropy]", state="visible")
    found, plain = pointed_at(blank)
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
