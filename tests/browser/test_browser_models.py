"""Another pair is loaded from the page, as a visitor of a server of one's own does it."""

import sys
import sysconfig
from pathlib import Path

import pytest
from playwright.sync_api import expect

from specdec import smollm2
from tests.conftest import enter, generate, go, pick, serious_findings, shows
from tests.helpers.tiny_checkpoints import save_checkpoint
from tests.helpers.tokenizers import byte_level_tokenizer
from tests.stress.visitors import serving

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
    with serving("--models-folder", str(folder)) as (address, _):
        yield address


def load(page, target, draft):
    enter(page.locator("#target").locator("input, textarea"), target)
    enter(page.locator("#draft").locator("input, textarea"), draft)
    page.locator("#load-models").click()


def test_a_visitor_loads_a_pair_and_it_answers(page):
    shows(page, "#models-accordion", "Models: stories/target with stories/draft")
    page.locator(".open-settings input").check(force=True)
    page.locator("#models-accordion > summary").click()
    shows(page, "#models .now", "stories/draft")
    pick(page.get_by_label("Pair to load"), "Own models")
    load(page, HOSTILE, "small")
    shows(page, "#models .models-error", "hub id")
    expect(page.locator("#models img")).to_have_count(0)
    load(page, "large", "small")
    shows(page, "#models .outcome", "large with small is loaded")
    shows(page, "#models-accordion", "/large with ")
    expect(page.locator("#models .models-error")).to_be_hidden()
    expect(page.get_by_label("Use the chat template")).to_be_checked()
    assert serious_findings(page, "#models-accordion") == []
    enter(page.locator("#prompt textarea"), "the cat")
    generate(page)
    expect(page.locator("#text .prompt")).to_have_text("the cat")
    assert page.evaluate("window.specdec.store.state.setup.models[0].name").endswith("/large")
    assert page.evaluate("window.hacked") is None


def test_without_its_weights_and_the_hub_the_story_pair_opens_and_the_page_says_how_to_get_the_other(
    blank, tmp_path, monkeypatch
):
    packages = tmp_path / "packages"  # all that are installed here but that of the weights
    packages.mkdir()
    for part in Path(sysconfig.get_path("purelib")).iterdir():
        if "smollm2" not in part.name:
            (packages / part.name).symlink_to(part)
    for name, value in {"PYTHONPATH": packages, "HF_HOME": tmp_path / "hub", "HF_HUB_OFFLINE": 1}.items():
        monkeypatch.setenv(name, str(value))
    with serving(pair=None, python=(sys.executable, "-S")) as (address, _):
        go(blank, address)
        assert blank.evaluate("window.specdec.store.state.recorded.name") == "story"
        expect(blank.locator("#replay .look")).to_contain_text(smollm2.INSTALL)
        expect(blank.locator("#prompts .stories")).to_be_visible()
        generate(blank)
        assert blank.evaluate("window.specdec.store.state.setup.models[0].name") == "stories/target"
        blank.goto("about:blank")
