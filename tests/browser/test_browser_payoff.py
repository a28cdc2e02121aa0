"""The place "Will it pay?" in the browser: examples, values that a visitor enters, invalid values, and the
address."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import choose, generate, ready


@pytest.fixture
def opened(blank, url):
    def open_panel(query="&payoff.preset=gpu"):
        blank.goto(f"{url}/?tab=payoff{query}")
        ready(blank)
        expect(blank.locator("#payoff .sentences li")).to_have_count(3)
        return blank

    return open_panel


def speed_up(page):
    return float(page.locator("#payoff .speed-up").text_content().rstrip("×"))


def test_an_example_fills_the_fields_and_own_values_change_the_verdict_and_the_address(opened):
    page = opened()
    page.locator("#payoff select.preset").select_option("gpu")
    expect(page.locator("#payoff .source")).to_contain_text("Computed, not measured")
    expect(page.locator("#payoff [name=texts]")).to_have_value("64")
    expect(page.locator("#payoff tbody tr")).to_have_count(33)
    best = page.locator("#payoff tbody tr", has_text="★").text_content()
    assert f"{speed_up(page):.2f}" in best
    assert page.locator("#payoff .drafted").text_content() in best
    page.wait_for_selector("#payoff .plot .main-svg", state="attached")
    before = speed_up(page)
    page.locator("#payoff [name=acceptance]").fill("0.95")
    expect(page.locator("#payoff .source")).to_contain_text("Changed from")
    assert speed_up(page) > before
    page.locator("#payoff [name=rows]").nth(3).fill("7")
    page.locator("#payoff [name=shape]").select_option("sequence")
    page.wait_for_url("**payoff.shape=sequence**")
    expect(page.locator("#payoff .drawn")).to_have_attribute("aria-busy", "false")
    words = page.locator("#payoff .sentences li").all_text_contents()
    again = opened(page.url.partition("tab=payoff")[2])
    expect(again.locator("#payoff [name=rows]").nth(3)).to_have_value("7")
    expect(again.locator("#payoff .sentences li")).to_have_text(words)


def test_wrong_values_are_named_and_the_verdict_stays(opened):
    page = opened("&payoff.preset=gpu&payoff.texts=9999")
    expect(page.locator("#setup .told")).to_contain_text("give a whole number from 1 to 256")
    before, error = speed_up(page), page.locator("#payoff .error-box")
    page.locator("#payoff [name=texts]").fill("0")
    expect(error).to_contain_text("texts = 0: should be greater than or equal to 1")
    assert speed_up(page) == before
    page.locator("#payoff [name=texts]").fill("64")
    expect(error).to_be_hidden()
    page.locator("#payoff [name=rows]").first.fill("0.5")
    expect(error).to_contain_text("rows, entry 1 = 0.5")
    page.locator("#payoff select.preset").select_option("paper")
    expect(error).to_be_hidden()
    expect(page.locator("#payoff [name=rows]").first).to_have_value("1")


def test_this_servers_pair_is_measured_when_it_is_chosen(opened):
    page = opened()
    expect(page.locator("#payoff .here")).to_contain_text("with these two models: not measured yet.")
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.locator("#payoff .left")).to_have_text(re.compile(r"about \d+ s left|Measuring"))
    page.locator("#payoff .cancel").click()
    expect(page.locator("#payoff .drawn")).to_be_hidden()
    page.locator("#payoff select.preset").select_option("here")
    expect(page.locator("#payoff .source")).to_contain_text(
        "stories/target with stories/draft", timeout=120_000
    )
    expect(page.locator("#payoff .here")).to_contain_text(f"{speed_up(page):.2f} times plain decoding")


def test_the_speed_of_the_run_just_made_is_said_and_a_link_changes_an_example(page, url):
    """A link of the page opens the place without a reload, so the run stays."""
    choose(page.locator("#baseline input"))
    generate(page)
    link = "Object.assign(document.createElement('a'), {href: '?tab=payoff&payoff.acceptance=0.5'})"
    page.evaluate(f"document.body.appendChild({link}).click()")
    expect(page.locator("#payoff .here")).to_contain_text(re.compile(r"\d\.\d.* in your last run"))
    expect(page.locator("#payoff [name=acceptance]")).to_have_value("0.5")
    expect(page.locator("#payoff .source")).to_contain_text("Changed from: Measured on")
    page.locator("#payoff select.preset").select_option("here")
    both = re.compile(r"Your last run was .*\d\.\d.*; the gain depends on text and temperature\.")
    expect(page.locator("#payoff .names")).to_have_text(both, timeout=120_000)
