"""The watermark in the view "Losslessness", with scores of the run in Watch."""

import pytest
from playwright.sync_api import expect

from tests.conftest import PHONE, resize, serious_findings, to


@pytest.fixture
def watermark(open_tab):
    page = open_tab("losslessness")
    page.locator("#watermark").scroll_into_view_if_needed()
    page.wait_for_selector("#watermark .mark")
    return page


def p_of(page, version):
    text = page.locator(f"#watermark label.{version} .p").inner_text()
    return float(text.removeprefix("p = ").replace("−", "-"))


def test_a_run_is_known_by_its_seed_and_by_no_other(watermark):
    page = watermark
    assert p_of(page, "key") < p_of(page, "tenth") < 1e-6 < p_of(page, "wrong")
    seed = page.evaluate("window.specdec.store.state.setup.seed")
    expect(page.locator("#watermark .about")).to_contain_text(f"ERSD, seed {seed}, 64 tokens")
    text = page.evaluate("window.specdec.store.state.rounds.map(({ text }) => text).join('')")
    shown = page.locator("#watermark .scored")
    assert shown.evaluate("element => element.textContent") == text
    page.locator("#watermark label.tenth").click()
    expect(page.locator("#watermark .mark.changed")).to_have_count(6)
    expect(page.locator("#watermark .line.chosen")).to_have_class("line tenth chosen")
    page.keyboard.press("ArrowRight")  # the versions are one group of radio buttons
    expect(page.locator("#watermark .mark")).to_have_count(63)
    before = p_of(page, "wrong")
    page.locator("#watermark .other-seed").fill(str(seed))  # the text's own seed
    page.locator("#watermark .other-seed").blur()
    page.wait_for_function(
        "document.querySelector('#watermark .wrong .p').textContent"
        " === document.querySelector('#watermark .key .p').textContent"
    )
    assert before > 1e-6
    page.locator("#watermark summary").click()
    expect(page.locator("#watermark tbody tr")).to_have_count(63)
    page.locator("#watermark .other-seed").fill("-1")
    page.locator("#watermark .other-seed").blur()
    expect(page.locator("#watermark .error-box")).to_contain_text("other_seed = -1")


def test_a_button_leads_to_it_another_run_is_scored_and_axe_finds_nothing_on_any_screen(watermark):
    page = watermark
    for width, height, theme in ((1280, 720, "light"), (*PHONE, "dark")):
        resize(page, (width, height))
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
        assert width < 1000 or page.locator("#watermark .card").bounding_box()["height"] <= height
        assert page.locator("#watermark .fall").bounding_box()["height"] >= 190
        for version in ("wrong", "tenth", "less"):
            page.locator(f"#watermark label.{version}").click()
        assert serious_findings(page, "#watermark") == []
    page.evaluate("scrollTo(0, 0)")
    docked = page.locator("#lossless-buttons")
    expect(docked).to_be_visible()
    assert docked.evaluate("row => row.getBoundingClientRect().bottom === innerHeight")
    page.get_by_role("button", name="watermark").click()
    page.wait_for_function("Math.abs(document.querySelector('#watermark').getBoundingClientRect().top) < 100")
    assert docked.bounding_box()["y"] < page.locator("#watermark").bounding_box()["y"]
    to(page, "Watch")
    page.locator("#replay .choose").select_option("early-rejection")
    page.wait_for_function("window.specdec.store.state.recorded?.name === 'early-rejection'")
    to(page, "Understand")
    page.locator("#watermark").scroll_into_view_if_needed()
    expect(page.locator("#watermark .about")).to_contain_text("GSD, seed")
    expect(page.locator("#watermark .about")).to_contain_text("the target's race does not decide")
