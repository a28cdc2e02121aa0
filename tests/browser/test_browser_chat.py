"""A pair that chats: questions, answers, and conversations that continue."""

import json
from html import unescape

import pytest
from playwright.sync_api import expect

from tests.conftest import enter, frame_code, generate, go, ready, state
from tests.models.test_gguf import model_of, written
from tests.stress.visitors import serving


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server of two small random models with a chat template."""
    folder, options = tmp_path_factory.mktemp("models"), []
    for role, size in (("target", 96), ("draft", 64)):
        model = model_of("llama", max_position_embeddings=2048, intermediate_size=size)
        options += [f"--{role}", str(written(folder / f"{role}.gguf", model))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECDEC_CACHE", str(folder / "cache"))
        with serving(*options, pair=None) as (address, _):
            yield address


@pytest.fixture
def chat(blank, url):
    """The page for a new visitor, with short answers."""
    return go(blank, f"{url}/?length=6&baseline=0")


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
    again = state(chat)
    assert again["setup"]["history"] == second["setup"]["history"]
    assert answer(again) == answer(second)
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
    chat.evaluate("window.before = window.specdec.store.state.run")
    button = chat.locator(".chips .questions button").nth(1)
    words = button.get_attribute("data-prompt")
    button.click()
    chat.wait_for_function(
        "window.specdec.store.state.run !== window.before && document.body.dataset.phase === 'done'"
    )
    assert turns(chat) == [words]


def test_an_embedded_answer_is_decoded_with_the_template_and_a_saved_one_is_opened(chat, someone, tmp_path):
    ask(chat, "Name a colour.")
    frame = someone(unescape(frame_code(chat).partition('src="')[2].partition('"')[0]))
    frame.get_by_role("button", name="Decode this run").click()
    expect(frame.locator("#text .prompt .question")).to_have_text("Name a colour.")
    kept = "#text .tokens .token:not(.rejected)"
    expect(frame.locator(kept)).to_have_text(chat.locator(kept).all_text_contents())
    saved = ask(chat, "Another one?")
    chat.locator("#replay summary").click()
    with chat.expect_download() as download:
        chat.get_by_role("button", name="Trace (JSON)").click()
    download.value.save_as(tmp_path / "run.json")
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["chat"], run["history"]) == (True, saved["setup"]["history"])
    before = turns(chat)
    chat.locator("#replay .choose").select_option("opening")
    chat.wait_for_function("window.specdec.store.state.recorded?.name === 'opening'")
    chat.locator("#replay input[type=file]").set_input_files(tmp_path / "run.json")
    chat.wait_for_function("window.specdec.store.state.recorded.name === 'file'")
    chat.wait_for_function("document.querySelectorAll('#text .prompt .turn').length === 3")
    assert turns(chat) == before
