"""The laboratories of experiments and codecs in the browser."""

import pytest
from playwright.sync_api import expect

from components.experiments import views
from tests.conftest import shows


def drawn(page, selector):
    """Scroll to a figure and wait until its curves are drawn."""
    page.locator(selector).first.scroll_into_view_if_needed()
    page.wait_for_function("figure => document.querySelector(figure).querySelector('svg')", arg=selector)


def range_of(page, figure):
    return page.evaluate("f => document.querySelector(f)._fullLayout.yaxis.range", figure)


def test_results_are_drawn_for_both_methods_and_keep_zoom_and_hidden_curves(open_tab):
    lab, view, figure = open_tab("experiments"), views.shipped(), "#experiments_lab .plot .figure"
    shows(lab, "#experiments_lab .about", view["about"].partition(":")[0])
    shown = [each for each in view["figures"] if each.get("method") in (None, "gsd")]
    expect(lab.locator("#experiments_lab .plot")).to_have_count(len(shown))
    expect(lab.locator("#experiments_lab .findings tbody tr")).to_have_count(len(view["findings"]))
    drawn(lab, figure)
    shows(lab, "#experiments_lab .plot .sentence", "GSD, tokens")
    lab.locator("#experiments_lab .plot summary").first.click()
    rows = lab.locator("#experiments_lab .plot table").first.locator("tbody tr")
    expect(rows).to_have_count(len(shown[0]["table"]["rows"]))
    whole = range_of(lab, figure)
    lab.evaluate(
        "f => window.Plotly.relayout(document.querySelector(f), {'yaxis.range[0]': 1, 'yaxis.range[1]': 2})",
        figure,
    )
    curve = lab.locator("#experiments_lab .curve", has_text="batch").first
    for hidden in (2, 0):  # each press draws the zoomed figure again
        curve.click()
        lab.wait_for_function(
            "([f, n]) => document.querySelector(f).data.filter((it) => it.visible === false).length === n",
            arg=[figure, hidden],
        )
    assert range_of(lab, figure) == [1, 2]
    lab.evaluate("f => document.querySelector(f).emit('plotly_doubleclick')", figure)
    lab.wait_for_function("f => document.querySelector(f)._fullLayout.yaxis.range[1] !== 2", arg=figure)
    assert range_of(lab, figure) == pytest.approx(whole)
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "false")
    lab.get_by_role("radio", name="ERSD").check()
    shows(lab, "#experiments_lab .plot .sentence", "ERSD, tokens")
    expect(curve).to_have_attribute("aria-pressed", "true")
    lab.get_by_role("radio", name="GSD").check()
    expect(curve).to_have_attribute("aria-pressed", "false")
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "true")


def test_bob_gets_the_sentence_and_own_distributions_and_words_are_coded_too(open_tab):
    codecs = open_tab("codecs")
    tokens = codecs.locator("#codec_lab .received .sent")
    expect(tokens).to_have_count(32)
    expect(codecs.locator("#codec_lab .received .other")).to_have_count(0)
    tokens.nth(2).click()
    shows(codecs, "#codec_lab .message-of-one", "Token 3.")
    shows(codecs, "#codec_lab .distributions-plot .sentence", "D_KL")
    expect(codecs.locator("#codec_lab .editor tbody tr")).to_have_count(13)
    codecs.get_by_role("button", name="New shared randomness").click()
    shows(codecs, "#codec_lab .note.seed", "differ from the recorded text")
    codecs.locator("#codec_lab .codec").select_option("poisson_functional")
    shows(codecs, "#codec_lab .message-of-one", "winner of the race under P")
    word = codecs.locator("#codec_lab .word")
    for typed, place, said in (
        ("abc", ".about-word", "3 letters became"),
        ("xyz", ".word-message", "the word has 'x'"),
    ):
        word.fill(typed)
        word.press("Tab")
        shows(codecs, f"#codec_lab {place}", said)


def test_a_distribution_is_edited_and_a_mistake_in_it_is_named(open_tab):
    codecs = open_tab("codecs")
    q = codecs.get_by_label("Q of b")
    q.fill("-1")
    q.press("Tab")
    shows(codecs, "#codec_lab .message", "q, entry 2 = -1: should be greater than or equal to 0")
    q.fill("0.99")
    q.press("Tab")
    shows(codecs, "#codec_lab .distributions-plot .sentence", "D_KL[P‖Q] = 0.")
    expect(codecs.locator("#codec_lab > section > .message").first).to_be_hidden()
