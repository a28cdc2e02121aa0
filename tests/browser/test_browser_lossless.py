"""The losslessness check and the watermark as a visitor uses them: run the check, break the verifier, enter
invalid values, and score the run in Watch."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_browser_screens import FITS_A_PHONE
from tests.conftest import DESKTOP, PHONE, choose, enter, resize, serious_findings, settle, shows, to


@pytest.fixture
def open_check(open_tab):
    def open_page(theme="light", size=DESKTOP, **settings):
        fields = "".join(f"&lossless.{name}={value}" for name, value in settings.items())
        page = open_tab("losslessness", f"&__theme={theme}{fields}", size)
        decodes = page.get_by_role("spinbutton", name="Decodes")
        expect(decodes).to_have_value(str(settings.get("decodes", 8000)))  # the address has been read
        settle(decodes)
        return page

    return open_page


def run(page):
    page.get_by_role("button", name="Run the check").click()


def says(page, text, where=".verdict"):
    shows(page, f"#lossless {where}", text)


def test_a_right_decoder_passes_and_a_broken_one_is_caught(open_check):
    page = open_check(decodes=1500)
    expect(page.locator("#lossless .outcome")).to_have_count(16)  # the bars are there before any decode
    says(page, "This is a recorded check")
    run(page)
    says(page, "No difference found: χ² = ")
    says(page, "of 1,500; 2 tokens of each are tested", ".decodes-of")
    choose(page.get_by_label("Break the verifier on purpose"))
    choose(page.get_by_label("A rejected token stays in Q"))
    page.get_by_text("the next sibling is tested with a q that is too small").wait_for()
    run(page)
    says(page, "Caught (A rejected token stays in Q): χ² = ")
    says(page, "p < 1e−12")
    page.locator("#lossless .outcome.beyond").nth(5).wait_for()
    cells = page.locator("#lossless .history tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [(row[3], row[-1]) for row in cells] == [
        ("A rejected token stays in Q", "✗ difference"),
        ("none", "✓ none found"),
    ]
    page.locator("#lossless .outcome-table summary").click()
    rows = page.locator("#lossless .outcome-table tbody tr")
    expect(rows).to_have_count(16)
    counts = rows.locator("td:nth-child(4)").all_inner_texts()
    assert sum(int(count.replace(",", "")) for count in counts) == 1500


def test_what_does_not_fit_is_said_and_plain_decoding_has_no_verifier_to_break(open_check):
    page = open_check()
    seed, beside = page.get_by_label("Seed of the check"), page.locator("#lossless-seed .wrong")
    enter(seed, "-3")
    run(page)
    says(page, "seed = -3 is not a whole number from 0", ".lossless-error")
    expect(beside).to_contain_text("seed = -3 is not a whole number from 0")
    expect(seed).to_be_focused()
    expect(seed).to_have_attribute("aria-invalid", "true")
    seed.fill("3")
    expect(beside).to_be_hidden()
    expect(seed).to_have_attribute("aria-invalid", "false")
    choose(page.locator("#lossless-method input[value=ar]"))
    page.get_by_text("there is no verifier to break").wait_for()
    expect(page.get_by_label("Break the verifier on purpose")).to_be_disabled()


def test_a_phone_shows_three_tokens_without_scrolling_sideways_and_axe_finds_nothing_serious(open_check):
    page = open_check("dark", PHONE, tokens=3, decodes=300)
    run(page)
    says(page, "No difference found")
    says(page, "In each group, the last tokens are in the order sun, cloud, rain, snow", ".spread")
    page.wait_for_function(FITS_A_PHONE)
    expect(page.get_by_role("button", name="Run the check")).to_be_enabled()
    assert serious_findings(page, "#lossless-page") == []


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
    assert page.locator("#watermark .scored").text_content() == text
    page.locator("#watermark label.tenth").click()
    expect(page.locator("#watermark .mark.changed")).to_have_count(6)
    expect(page.locator("#watermark .line.chosen")).to_have_class("line tenth chosen")
    page.keyboard.press("ArrowRight")  # the versions are one group of radio buttons
    expect(page.locator("#watermark .mark")).to_have_count(63)
    before = p_of(page, "wrong")
    page.locator("#watermark .other-seed").fill(str(seed))  # the text's own seed
    page.locator("#watermark .other-seed").blur()
    expect(page.locator("#watermark .wrong .p")).to_have_text(page.locator("#watermark .key .p").inner_text())
    assert before > 1e-6
    page.locator("#watermark summary").click()
    expect(page.locator("#watermark tbody tr")).to_have_count(63)
    page.locator("#watermark .other-seed").fill("-1")
    page.locator("#watermark .other-seed").blur()
    expect(page.locator("#watermark .error-box")).to_contain_text("other seed = -1")


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
