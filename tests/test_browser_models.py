"""Another pair is loaded from the page, as a visitor of a server of one's own does it."""

from __future__ import annotations

import pytest
from conftest import serious_findings, served
from tiny_checkpoints import save_checkpoint
from tokenizers_for_tests import byte_level_tokenizer

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server that offers one folder of models: the others' server keeps its pair."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}[user] {{ m.content }}{% endfor %} [answer]"
    for name, family in (("large", "llama"), ("small", "gpt2")):
        save_checkpoint(folder / name, family, vocab_size=len(tokenizer))
        tokenizer.save_pretrained(folder / name)
    with served("--models-folder", str(folder)) as address:
        yield address


def load(page, target, draft):
    page.locator("#target").locator("input, textarea").fill(target)
    page.locator("#draft").locator("input, textarea").fill(draft)
    page.locator("#load-models").click()


def shown(page, selector, text):
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


def test_a_visitor_loads_a_pair_and_it_answers(page):
    shown(page, "#models-accordion", "Models: tiny/target with tiny/draft")
    page.locator("#models-accordion > .label-wrap").click()
    shown(page, "#models .now", "tiny/draft")
    page.get_by_label("Pair to load").click()
    page.get_by_role("option", name="Own models").click()
    load(page, HOSTILE, "small")
    shown(page, "#models .models-error", "hub id")
    assert page.locator("#models img").count() == 0
    load(page, "large", "small")
    shown(page, "#models .outcome", "large with small is loaded")
    shown(page, "#models-accordion", "/large with ")
    assert page.locator("#models .models-error").is_hidden()
    assert page.get_by_label("Use the chat template").is_checked()
    # a colour on its way has too little contrast
    moving = "document.querySelector('#models-accordion').getAnimations({ subtree: true }).length"
    page.wait_for_function(f"{moving} === 0")
    assert serious_findings(page, "#models-accordion") == []
    page.locator("#prompt textarea").fill("the cat")
    page.locator("#generate").click()
    page.wait_for_function("document.body.dataset.phase === 'done'")
    assert page.locator("#text .prompt").evaluate("prompt => prompt.textContent") == "[user] the cat [answer]"
    assert page.evaluate("window.specdec.store.state.setup.models[0].name").endswith("/large")
    assert page.evaluate("window.hacked") is None
