"""A visitor of a server of their own loads another pair from the page, and chats with it: questions, answers,
and conversations that continue."""

import json
import re
from html import unescape

import pytest
from playwright.sync_api import expect

from specdec import smollm2
from tests.browser.test_browser_player import save
from tests.conftest import (
    SLOW,
    enter,
    frame_code,
    generate,
    go,
    pick,
    ready,
    serious_findings,
    shows,
    state,
    to,
    wait_for_state,
    within_reach,
)
from tests.models.test_gguf import model_of, written
from tests.stress.visitors import serving

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server of its own that offers two files of random models, so that the shared server keeps its
    pair."""
    folder = tmp_path_factory.mktemp("models")
    for name, size in (("large", 96), ("small", 64)):
        model = model_of("llama", max_position_embeddings=2048, intermediate_size=size)
        written(folder / f"{name}.gguf", model)
    (folder / "spoiled.gguf").write_text("no model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECDEC_CACHE", str(folder / "cache"))
        with serving("--models-folder", str(folder)) as (address, _):
            yield address


def test_a_verdict_on_two_files_takes_less_than_five_clicks_and_copies_need_no_draft(page, someone, url):
    expect(page.get_by_label("Pair to load")).to_have_value("stories")  # the loaded pair
    verdict = page.locator("#payoff .here")
    to(page, "Will it pay?")
    expect(verdict).to_have_text("On this computer, with these two models: not measured yet.")
    expect(page.locator("#payoff .drawn")).to_be_hidden()  # the boxes without numbers are hidden
    pick(page.get_by_label("Pair to load"), "Own models")  # two clicks
    page.keyboard.type("large.gguf")
    page.keyboard.press("Tab")
    page.keyboard.type("small.gguf")
    page.locator("#load-models").click()
    expect(verdict).to_have_text(re.compile(r"models: (\d\.\d\d times plain|no gain)"), timeout=120_000)
    expect(page.locator("#models .outcome")).to_contain_text("large.gguf with small.gguf is loaded")
    expect(page.locator("#payoff .source")).to_contain_text("large.gguf with small.gguf, ERSD")
    assert serious_findings(page, "#pay") == []
    load(page, "spoiled.gguf", "small.gguf")
    shows(page, "#target .wrong", "'spoiled.gguf' is no GGUF file")
    expect(verdict).to_have_text(re.compile(r"models: (\d\.\d\d times plain|no gain)"))
    other = someone(f"{url}/?tab=payoff")
    expect(other.get_by_label("Pair to load")).to_have_value("own")
    expect(page.locator("#payoff .sentences li")).to_have_count(3)
    load(page, "large.gguf", "")
    shows(page, "#models .outcome", "large.gguf with copies from the text is loaded")
    expect(page.locator("#payoff .error-box")).to_contain_text("depends on the text")
    expect(verdict).to_contain_text("not measured yet")  # the figures of the pair before are gone
    expect(page.locator("#payoff .drawn")).to_be_hidden()
    to(page, "Watch")
    generate(page)
    assert state(page)["setup"]["drafter"] == "copies"


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
    to(page, "Watch")
    within_reach(page.locator("#chat input"))
    expect(page.get_by_label("Use the chat template")).to_be_checked()
    enter(page.locator("#prompt textarea"), "the cat")
    generate(page)
    expect(page.locator("#text .prompt")).to_have_text("the cat")
    assert state(page)["setup"]["models"][0]["name"].endswith("large.gguf")
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
    words = "The other pair is being loaded for all visitors. To load another pair, wait for it or cancel it."
    expect(outcome).to_have_text(words)
    expect(error).to_be_hidden()
    expect(button).to_be_disabled()
    pick(page.get_by_label("Pair to load"), "Own models")
    expect(outcome).to_have_text(words)
    page.unroute("**/ask/models/state")
    expect(button).to_be_enabled()
    expect(outcome).not_to_have_text(words)


@pytest.fixture
def chat(blank, url):
    """The page for a new visitor of two models that chat, with short answers."""
    go(blank, f"{url}/?tab=payoff&length=6&baseline=0")
    if not blank.evaluate("'chats' in document.body.dataset"):
        load(blank, "large.gguf", "small.gguf")
        shows(blank, "#models .outcome", "large.gguf with small.gguf is loaded")
    go(blank, f"{url}/?length=6&baseline=0")
    blank.wait_for_function("!document.body.hasAttribute('data-loading')")
    return blank


def ask(page, question):
    enter(page.locator("#prompt textarea"), question)
    generate(page)
    return state(page)


def turns(page):
    return [turn.strip() for turn in page.locator("#text .prompt .turn").all_text_contents()]


def answer(run):
    return "".join(round["text"] for round in run["rounds"]).strip()


def test_a_conversation_goes_on_opens_by_its_link_and_begins_anew(chat):
    first = ask(chat, "Name a colour.")
    assert (first["setup"]["chat"], first["setup"]["history"]) == (True, [])
    assert turns(chat) == ["Name a colour."]
    second = ask(chat, "Another one?")
    assert second["setup"]["history"] == ["Name a colour.", answer(first)]
    assert turns(chat) == ["Name a colour.", answer(first), "Another one?"]
    expect(chat.locator("#replay .embed")).to_have_attribute("hidden", "")
    generate(chat)  # the same question again replaces its answer
    reopened = state(chat)
    assert reopened["setup"]["history"] == second["setup"]["history"]
    assert answer(reopened) == answer(second)
    chat.wait_for_url("**history=**")
    link = chat.url
    chat.reload()
    ready(chat)
    assert turns(chat) == ["Name a colour.", answer(first), "Another one?"]
    chat.goto("about:blank")
    go(chat, link).get_by_role("button", name="Run it").click()
    chat.wait_for_function("document.body.dataset.phase === 'done'")
    linked = state(chat)
    assert linked["setup"]["history"] == second["setup"]["history"]
    assert answer(linked) == answer(second)
    chat.get_by_text("New chat").click()
    assert ask(chat, "Name an animal.")["setup"]["history"] == []
    assert ask(chat, "Another one?")["setup"]["history"][0] == "Name an animal."


def test_a_question_moves_into_the_conversation_and_the_field_takes_the_next(chat):
    field = chat.locator("#prompt textarea")
    ask(chat, "Name a colour.")
    looks_empty = "document.body.hasAttribute('data-asked')"
    chat.wait_for_function(looks_empty)
    assert field.evaluate("field => getComputedStyle(field).color") == "rgba(0, 0, 0, 0)"
    field.click()
    chat.wait_for_function(looks_empty)
    chat.keyboard.press("End")  # selects the question, to change it
    chat.wait_for_function(f"!{looks_empty}")
    chat.keyboard.type(" Quickly!")
    expect(field).to_have_value("Name a colour. Quickly!")
    chat.keyboard.press("Enter")
    chat.wait_for_function(f"{looks_empty} && document.body.dataset.phase === 'done'")
    assert turns(chat)[-1] == "Name a colour. Quickly!"
    chat.keyboard.type("Why?")  # the field has kept the focus
    expect(field).to_have_value("Why?")
    assert not chat.evaluate(looks_empty)


def test_a_question_is_refused_in_words_and_one_to_click_begins_a_conversation(chat):
    ask(chat, "Name a colour.")
    enter(chat.locator("#prompt textarea"), " ")
    generate(chat, until="error")
    expect(chat.locator("#feed .run-error")).to_have_text("The prompt is empty. Write something first.")
    for words, message in ((500, "The question is too long: 2,5"), (398, "This conversation is too long")):
        enter(chat.locator("#prompt textarea"), "word " * words)
        generate(chat, until="error")
        expect(chat.locator("#feed .run-error")).to_contain_text(message)
        assert turns(chat) == ["Name a colour."]
    expect(chat.get_by_text("New chat")).to_be_visible()
    before = state(chat)["run"]
    button = chat.locator(".chips .questions button").nth(1)
    words = button.get_attribute("data-prompt")
    button.click()
    wait_for_state(chat, f"run !== {before!r} && phase === 'done'")
    assert turns(chat) == [words]


def test_an_embedded_answer_is_decoded_with_the_template_and_a_saved_one_is_opened(chat, someone, tmp_path):
    ask(chat, "Name a colour.")
    frame = someone(unescape(frame_code(chat).partition('src="')[2].partition('"')[0]))
    frame.get_by_role("button", name="Decode this run").click()
    expect(frame.locator("#text .prompt .question")).to_have_text("Name a colour.")
    tokens = "#text .tokens .token:not(.rejected)"
    expect(frame.locator(tokens)).to_have_text(chat.locator(tokens).all_text_contents())
    saved = ask(chat, "Another one?")
    save(chat, "json").save_as(tmp_path / "run.json")
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["chat"], run["history"]) == (True, saved["setup"]["history"])
    before = turns(chat)
    chat.locator("#replay .choose").select_option("opening")
    wait_for_state(chat, "recorded?.name === 'opening'")
    chat.locator("#replay input[type=file]").set_input_files(tmp_path / "run.json")
    wait_for_state(chat, "recorded.name === 'file'")
    expect(chat.locator("#text .prompt .turn")).to_have_count(3)
    assert turns(chat) == before


@pytest.mark.slow
@pytest.mark.skipif(smollm2.installed() is None, reason=f"no weights: {smollm2.INSTALL}")
def test_the_page_that_opens_without_options_chats_with_smollm2(someone):
    with serving(pair=None) as (address, _):
        page = someone(f"{address}/?length=6&baseline=0")
        page.wait_for_function("!document.body.hasAttribute('data-loading')", timeout=300_000)
        ready(page)
        setup = ask(page, "Name a colour.")["setup"]
    assert setup["chat"]
    assert "SmolLM2-135M-Instruct" in setup["models"][0]["name"]
