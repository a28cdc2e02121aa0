"""The laboratories of experiments and codecs in the browser."""

import json

import pytest
from playwright.sync_api import expect

from research.experiments.paper import sweep_of
from research.experiments.summary import summarize
from research.experiments.sweep import Store
from tests.conftest import shows
from tests.helpers.distributions import markov_pair
from tests.research.test_experiments import SMALL
from tests.stress.visitors import serving


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The address of a server that shows a small experiment of its own."""
    store = Store(tmp_path_factory.mktemp("experiment") / "results.jsonl")
    sweep_of(markov_pair(3), SMALL).complete(store, quiet=True)
    summary = store.path.with_suffix(".json")
    summary.write_text(json.dumps(summarize(*store.read())))
    with serving("--results", str(summary)) as (address, _):
        yield address


@pytest.fixture
def lab(open_tab, own):
    return open_tab("experiments", address=own)


@pytest.fixture
def codecs(open_tab):
    return open_tab("codecs")


def drawn(page, selector):
    """Scroll to a figure and wait until its curves are drawn."""
    page.locator(selector).first.scroll_into_view_if_needed()
    page.wait_for_function("figure => document.querySelector(figure).querySelector('svg')", arg=selector)


def test_own_results_are_drawn_for_both_methods_with_a_table_each(lab):
    shows(lab, "#experiments_lab .about", "Target target, draft draft")
    expect(lab.locator("#experiments_lab .plot")).to_have_count(4)
    drawn(lab, "#experiments_lab .plot .figure")
    shows(lab, "#experiments_lab .plot .sentence", "GSD, tokens")
    lab.get_by_role("radio", name="ERSD").check()
    shows(lab, "#experiments_lab .plot .sentence", "ERSD, tokens")
    expect(lab.locator("#experiments_lab .findings tbody tr")).to_have_count(13)
    lab.locator("#experiments_lab .plot summary").first.click()
    expect(lab.locator("#experiments_lab .plot table").first.locator("tbody tr")).to_have_count(13)


def range_of(page, figure):
    return page.evaluate("f => document.querySelector(f)._fullLayout.yaxis.range", figure)


def test_a_double_click_shows_everything_again_after_a_redraw(lab):
    figure = "#experiments_lab .plot .figure"
    drawn(lab, figure)
    whole = range_of(lab, figure)
    lab.evaluate(
        "f => window.Plotly.relayout(document.querySelector(f), {'yaxis.range[0]': 1, 'yaxis.range[1]': 2})",
        figure,
    )
    for hidden in (2, 0):  # each press draws the zoomed figure again
        lab.locator("#experiments_lab .curve", has_text="batch").first.click()
        lab.wait_for_function(
            "([f, n]) => document.querySelector(f).data.filter((it) => it.visible === false).length === n",
            arg=[figure, hidden],
        )
    assert range_of(lab, figure) == [1, 2]
    lab.evaluate("f => document.querySelector(f).emit('plotly_doubleclick')", figure)
    lab.wait_for_function("f => document.querySelector(f)._fullLayout.yaxis.range[1] !== 2", arg=figure)
    assert range_of(lab, figure) == pytest.approx(whole)


def test_a_hidden_curve_stays_marked_when_the_method_changes_and_returns(lab):
    curve = lab.locator("#experiments_lab .curve", has_text="batch").first
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "false")
    lab.get_by_role("radio", name="ERSD").check()
    expect(curve).to_have_attribute("aria-pressed", "true")
    lab.get_by_role("radio", name="GSD").check()
    expect(curve).to_have_attribute("aria-pressed", "false")
    curve.click()
    expect(curve).to_have_attribute("aria-pressed", "true")


def test_bob_gets_the_sentence_and_a_chosen_token_its_laws(codecs):
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


def test_a_distribution_is_edited_and_a_mistake_in_it_is_named(codecs):
    q = codecs.get_by_label("Q of b")
    q.fill("-1")
    q.press("Tab")
    shows(codecs, "#codec_lab .message", "q, entry 2 = -1: should be greater than or equal to 0")
    q.fill("0.99")
    q.press("Tab")
    shows(codecs, "#codec_lab .distributions-plot .sentence", "D_KL[P‖Q] = 0.")
    expect(codecs.locator("#codec_lab > section > .message").first).to_be_hidden()


def test_a_word_is_cut_into_phrases(codecs):
    word = codecs.locator("#codec_lab .word")
    word.fill("abc")
    word.press("Tab")
    shows(codecs, "#codec_lab .about-word", "3 letters became")
    word.fill("xyz")
    word.press("Tab")
    shows(codecs, "#codec_lab .word-message", "the word has 'x'")
