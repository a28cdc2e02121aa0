"""A visitor of a server of their own loads another pair from the page."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import SLOW, enter, generate, pick, ready, serious_findings, shows, to, within_reach
from tests.models.test_gguf import model_of, written
from tests.stress.visitors import serving

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server of its own that offers two files of random models, so that the shared server keeps its
    pair."""
    folder = tmp_path_factory.mktemp("models")
    for name, size in (("large", 96), ("small", 64)):
        model = model_of("llama", max_position_embeddings=512, intermediate_size=size)
        written(folder / f"{name}.gguf", model)
    (folder / "spoiled.gguf").write_text("no model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECDEC_CACHE", str(folder / "cache"))
        with serving("--models-folder", str(folder)) as (address, _):
            yield address


def test_a_verdict_on_two_files_takes_less_than_five_clicks_and_copies_need_no_draft(page, someone, url):
    expect(page.get_by_label("Pair to load")).to_have_value("stories")  # the loaded pair
    here = page.locator("#payoff .here")
    to(page, "Will it pay?")
    expect(here).to_have_text("On this computer, with these two models: not measured yet.")
    expect(page.locator("#payoff .drawn")).to_be_hidden()  # the boxes without numbers are hidden
    pick(page.get_by_label("Pair to load"), "Own models")  # two clicks
    page.keyboard.type("large.gguf")
    page.keyboard.press("Tab")
    page.keyboard.type("small.gguf")
    page.locator("#load-models").click()
    expect(here).to_have_text(re.compile(r"models: (\d\.\d\d times plain|no gain)"), timeout=120_000)
    expect(page.locator("#models .outcome")).to_contain_text("large.gguf with small.gguf is loaded")
    expect(page.locator("#payoff .source")).to_contain_text("large.gguf with small.gguf, ERSD")
    assert serious_findings(page, "#pay") == []
    other = someone(f"{url}/?tab=payoff")
    expect(other.get_by_label("Pair to load")).to_have_value("own")
    expect(page.locator("#payoff .sentences li")).to_have_count(3)
    load(page, "large.gguf", "")
    shows(page, "#models .outcome", "large.gguf with copies from the text is loaded")
    expect(page.locator("#payoff .error-box")).to_contain_text("depends on the text")
    expect(here).to_contain_text("not measured yet")  # the figures of the pair before are gone
    expect(page.locator("#payoff .drawn")).to_be_hidden()
    to(page, "Watch")
    generate(page)
    assert page.evaluate("window.specdec.store.state.setup.drafter") == "copies"


def load(page, target, draft):
    pick(page.get_by_label("Pair to load"), "Own models")
    enter(page.locator("#target input"), target)
    enter(page.locator("#draft input"), draft)
    page.locator("#load-models").click()


def test_a_visitor_loads_a_pair_and_it_answers_and_a_late_opening_leaves_its_chat_template(
    page, someone, url
):
    to(page, "Will it pay?")
    load(page, HOSTILE, "small.gguf")
    expect(page.locator("#models .models-error")).to_contain_text("hub id", timeout=6 * SLOW)
    shows(page, "#target .wrong", "no hub id")
    expect(page.locator("#target input")).to_be_focused()
    expect(page.locator("#models img")).to_have_count(0)
    load(page, "large.gguf", "spoiled.gguf")
    shows(page, "#draft .wrong", "'spoiled.gguf' is no GGUF file")
    expect(page.locator("#draft input")).to_be_focused()
    expect(page.locator("#target .wrong")).to_be_hidden()
    page.locator("#draft input").fill("small.gguf")
    expect(page.locator("#draft .wrong")).to_be_hidden()
    assert ".." not in page.locator("#models .models-error").inner_text()
    expect(page.locator("#feed .run-status")).not_to_contain_text("You changed")
    page.evaluate(  # all stages of the load, which may last for moments
        """() => {
          window.stages = [];
          const stage = document.querySelector("#models .stage");
          new MutationObserver(() => window.stages.push(stage.textContent))
            .observe(stage, { childList: true, characterData: true, subtree: true });
        }"""
    )
    load(page, "large.gguf", "large.gguf")
    shows(page, "#draft .info", "The draft is the target itself")
    shows(page, "#models .outcome", "large.gguf with large.gguf is loaded")
    enter(page.locator("#draft input"), "small.gguf")
    expect(page.locator("#models .outcome")).to_have_text("You chose other models: press “Load and measure”.")
    load(page, "large.gguf", "small.gguf")
    shows(page, "#models .outcome", "large.gguf with small.gguf is loaded")
    expect(page.locator("#models")).not_to_contain_text("Generate")
    expect(page.locator("#models .models-error")).to_be_hidden()
    stages = page.evaluate("window.stages")
    assert any("large.gguf" in stage for stage in stages)
    assert not [stage for stage in stages if "/" in stage or "hub" in stage]
    to(page, "Guess")
    shows(page, "#be_draft .pair-line", "Story models 15M checks, 0.7M guesses")  # they play with any pair
    to(page, "Watch", "Compare")
    shows(page, "#compare .pair-line", "Story models 15M checks, 0.7M guesses · recorded")
    shows(page, "#compare .pair-line", "Run uses: Large checks, Small guesses")
    assert page.locator("#compare .column .tokens .token").count() > 100
    to(page, "Decode")
    within_reach(page.locator("#chat input"))
    expect(page.get_by_label("Use the chat template")).to_be_checked()
    enter(page.locator("#prompt textarea"), "the cat")
    generate(page)
    expect(page.locator("#text .prompt")).to_have_text("the cat")
    assert page.evaluate("window.specdec.store.state.setup.models[0].name").endswith("large.gguf")
    assert page.evaluate("window.hacked") is None
    newcomer, late = someone("about:blank"), []
    newcomer.route("**/traces/*.json", lambda route: late.append(route))
    newcomer.goto(url)
    newcomer.wait_for_selector("body[data-chats]")
    for route in late:
        route.continue_()
    newcomer.unroute("**/traces/*.json")
    ready(newcomer)
    expect(newcomer.locator("#chat input")).to_be_checked()


def test_a_visitor_who_presses_load_learns_at_once_that_another_load_runs(page):
    to(page, "Will it pay?")
    button, outcome = page.locator("#load-models"), page.locator("#models .outcome")
    error, waiting = page.locator("#models .models-error"), []
    page.route("**/call/v2/load_pair", lambda route: waiting.append(route))

    def held():
        while not waiting:
            page.wait_for_timeout(20)
        return waiting.pop()

    button.click()
    expect(outcome).to_have_text("Asking the server …")
    expect(button).to_be_disabled()
    with page.expect_response("**/ask/models/state"):
        held().fulfill(status=400, json={"detail": "this is not the key"})
    expect(error).to_have_text("this is not the key")
    expect(button).to_be_enabled()
    expect(error).to_be_visible()  # also after the server's answer about the load

    def busy(route):
        route.fulfill(json=route.fetch().json() | {"status": "loading", "title": "The other pair"})

    page.route("**/ask/models/state", busy)
    button.click()
    held().fulfill(status=400, json={"detail": "The other pair is being loaded"})
    told = "The other pair is being loaded for all visitors. To load another pair, wait for it or cancel it."
    expect(outcome).to_have_text(told)
    expect(error).to_be_hidden()
    expect(button).to_be_disabled()
    pick(page.get_by_label("Pair to load"), "Own models")
    expect(outcome).to_have_text(told)
    page.unroute("**/ask/models/state")
    expect(button).to_be_enabled()
    expect(outcome).not_to_have_text(told)
