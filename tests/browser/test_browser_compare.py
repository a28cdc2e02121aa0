"""The comparison as a visitor uses it: run it, change one setting, stop it, and enter invalid values."""

import pytest
from playwright.sync_api import expect

from components.compare.drafts import LABELS
from components.decode import controls
from tests.conftest import press_once, to

HOSTILE = "<img src=x onerror=window.hacked=1> ${window.hacked=2}"


@pytest.fixture
def compare(open_tab):
    return open_tab("compare")


def column(page, number):
    return page.locator("#compare .column").nth(number - 1)


def run(page, until="done", **fields):
    for name, value in fields.items():
        page.locator(f"#compare [name={name}]").fill(str(value))
    page.locator("#compare .run").click()
    reached(page, until)


def reached(page, phase):
    page.wait_for_function("phase => window.specdec.compare.state.phase === phase", arg=phase)


def says(page, number, text):
    expect(column(page, number).locator(".judgement")).to_contain_text(text)


def tokens(page, number):
    return column(page, number).locator(".tokens .token").all_text_contents()


def test_ersd_keeps_its_text_whatever_drafts_and_gsd_does_not(compare):
    run(compare, length=32)
    says(compare, 3, "The same 32 tokens as plain decoding")
    says(compare, 2, "First difference at token")
    plain, gsd, ersd = (tokens(compare, number) for number in (1, 2, 3))
    assert plain == ersd != gsd
    parts = next(i for i, pair in enumerate(zip(plain, gsd, strict=True)) if pair[0] != pair[1])
    says(compare, 2, f"First difference at token {parts + 1}:")
    marked = ".tokens .parting + .token"
    assert column(compare, 1).locator(marked).text_content() == plain[parts]
    assert column(compare, 2).locator(marked).text_content() == gsd[parts]
    marks = compare.locator("#compare .story .parting")
    assert marks.all_inner_texts() == ["column 2 differs", "differs from plain"]
    for name in ("Exponential-race speculative decoding (ERSD)", "Greedy speculative decoding (GSD)"):
        expect(compare.locator("#compare .promise")).to_contain_text(name)
    for number, words in ((3, "all 32 tokens of the text are the same"), (2, "the text differs from token")):
        column(compare, number).get_by_label("Draft").select_option("uniform")
        says(compare, number, f"After your change, {words}")
    assert tokens(compare, 3) == plain
    assert tokens(compare, 2) != gsd
    sentence = "Column 3, ERSD: The same 32 tokens as plain decoding"
    expect(compare.locator("#compare .summary")).to_contain_text(sentence)
    expect(compare.locator("#compare table tbody tr")).to_have_count(3)


@pytest.mark.parametrize("own", [None, "Tom had a cat"])
def test_the_pair_of_the_columns_and_the_pair_of_run_are_named(blank, open_tab, own):
    def coder_loaded(route):
        state = route.fetch().json()
        names = {"target": "Qwen2.5-Coder-1.5B-Instruct", "draft": "Qwen2.5-Coder-0.5B-Instruct"}
        models = [{**model, "name": names[model["role"]]} for model in state["models"]]
        route.fulfill(json={**state, "models": models, "chats": True})

    page = open_tab("compare")
    line = page.locator("#compare .pair-line span")
    next_pair = page.locator("#compare .pair-line b")
    prompt = page.locator("#compare [name=prompt]")
    expect(line).to_have_text("Story models 15M checks, 0.7M guesses · recorded on two CPU cores")
    expect(next_pair).to_have_text("")
    expect(page.locator("#compare [name=seed]")).to_have_accessible_name("Seed")
    if own:
        prompt.fill(own)
    page.route("**/ask/models/state", coder_loaded)
    to(page, "Will it pay?")  # the panel of models asks again
    to(page, "Watch")
    expect(next_pair).to_have_text("Run uses: Qwen2.5-Coder 1.5B checks, 0.5B guesses")
    expect(line).to_have_text("Story models 15M checks, 0.7M guesses · recorded on two CPU cores")
    expect(column(page, 1).locator(".prompt")).to_have_text(controls.STORIES[0])
    expect(prompt).to_have_value(own or controls.CODE[0])
    says = "You changed the prompt" if own else "a recording of another pair. Press Run to decode the prompt"
    expect(page.locator("#compare .standing")).to_contain_text(says)
    page.unroute("**/ask/models/state")


SPARE = """() => [...document.querySelectorAll("#compare .choices select")].flatMap((menu) => {
  const { fontWeight, fontSize, fontFamily, paddingLeft, paddingRight } = getComputedStyle(menu);
  const font = `${fontWeight} ${fontSize} ${fontFamily}`;
  const pen = Object.assign(document.createElement("canvas").getContext("2d"), { font });
  const room = menu.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
  return [...menu.options].map(({ text }) => room - pen.measureText(text).width);
})"""
"""The pixels that each name in the columns' menus leaves free."""


def test_on_a_slide_with_four_columns_no_name_is_cut(visit):
    columns = ",".join(f"ersd.sequence.4.{draft}" for draft in LABELS)
    page = visit(f"?tab=compare&projector=1&compare.columns={columns}", (1280, 720))
    expect(page.locator("#compare .column")).to_have_count(4)
    assert min(page.evaluate(SPARE)) >= 4  # a scroll bar of 15 pixels takes 4 from each column


def test_without_an_autoregressive_column_it_is_measured_all_the_same(visit):
    page = visit("?tab=compare&compare.columns=ersd.simple.own,gsd.batch.3.noisy&compare.length=12")
    expect(page.locator("#compare .column")).to_have_count(2)
    run(page)
    says(page, 1, "The same 12 tokens as plain decoding")
    expect(page.locator("#compare .beside")).to_contain_text("12 tokens in 12 calls of the large model")
    page.get_by_role("button", name="Add a column").click()
    says(page, 3, "The same 12 tokens as plain decoding")
    page.get_by_role("button", name="Remove column 2").click()
    expect(page.locator("#compare .column")).to_have_count(2)


def test_stop_ends_it_and_mistakes_are_explained(compare):
    some = "document.querySelectorAll('#compare .tokens .token').length > 3"
    press_once(compare, f"window.specdec.compare.state.phase === 'running' && {some}", "#compare .stop")
    run(compare, until="stopped", length=400)
    says(compare, 3, "This run did not begin")
    run(compare, until="error", temperature=-1)
    compare.locator("#compare .run-error", has_text="temperature = -1").wait_for()
    column(compare, 2).get_by_label("k", exact=True).fill("0")
    column(compare, 2).get_by_label("k", exact=True).blur()
    run(compare, temperature=0, length=8, prompt=HOSTILE, seed="")
    says(compare, 2, "k = 0")
    says(compare, 3, "The same 8 tokens as plain decoding")
    expect(compare.locator("#compare [name=seed]")).not_to_have_value("")
    expect(column(compare, 1).locator(".prompt")).to_have_text(HOSTILE)
    assert compare.evaluate("window.hacked") is None
