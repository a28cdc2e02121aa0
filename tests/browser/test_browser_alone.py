"""Each panel served alone by its command, in this process: its scripts run, its main button works, and the
server receives the values of its form."""

import re
import runpy
import sys
from functools import partial

import pytest
from playwright.sync_api import expect

import app
import specdec
from components.page import serving
from specdec import smollm2
from tests.conftest import ROOT, SLOW, ready, state

PANELS = {
    "be_draft": ("be_draft", ".propose", "#be_draft .writing .token"),
    "classroom": ("lesson class_bar classroom lessons", ".lessons .start", "#lesson-title"),
    "codecs": ("codec_lab", ".reseed", "#codec_lab .recorded"),
    "compare": ("compare", ".run", "#compare[data-phase=done]"),
    "decode": (
        "shown_pair drawer prompts feed replay text result tree race stepper statistics",
        "#generate",
        "[data-phase=done] #text .prompt:has-text('A red ball')",
    ),
    "decode text statistics": ("text statistics shown", "#text .tokens .token", "#text .tokens .token"),
    "decode race tree": ("race tree shown", "[data-zoom=in]", "#tree .figure.zoomed .node"),
    "experiments": ("experiments_lab", "#experiments_lab :is(a, button)", "#experiments_lab .main-svg"),
    "lessons": ("lesson lessons", ".lessons .start", "#lesson-title"),
    "losslessness": ("lossless", "#lossless-run", "[data-check=done] .decodes-of:text('of 300')"),
    "page.projector": ("projector shown", ".enter", "#projector .leave"),
    "payoff": ("models payoff", "#load-models", ".outcome:text('Stories 15M: instant is loaded')"),
    "race_lab": ("race_lab shown", ".run-many", "#race_lab .lane"),
    "tree_lab": ("tree_lab shown", ".play", "#tree_lab .play:text('Pause')"),
    "watermark": ("watermark shown", ".versions input", "#watermark .scored span"),
}
"""Commands that serve panels alone: the panels in their order, what is pressed, and what is visible then.
"shown" has no content: it gives the others a run."""
ENTERED = {
    "decode": ("#prompt textarea", "A red ball"),
    "losslessness": ("#lossless-decodes [type=number]", "300"),
    "payoff": ("#pair select", "stories"),
}


@pytest.fixture
def alone(pair, monkeypatch):
    """Serve what a command serves. Returns the page's address."""
    launch, apps = partial(serving.launch, prevent_thread_lock=True, quiet=True), []
    monkeypatch.setattr(serving, "launch", lambda app: apps.append(app) or launch(app))
    monkeypatch.setattr(specdec, "load_pair", lambda *_, **__: pair)

    def serve(command):
        module, *parts = command.split()
        name = f"components.{module}{'' if '.' in module else '.__main__'}"
        monkeypatch.setattr(sys, "argv", [module, *parts])
        monkeypatch.delitem(sys.modules, name, raising=False)
        runpy.run_module(name, run_name="__main__")
        return apps[-1].get_blocks().local_url

    yield serve
    for each in apps:
        each.get_blocks().close(verbose=False)


@pytest.mark.parametrize("command", PANELS)
def test_a_panel_works_alone(alone, someone, command):
    panels, button, shown = PANELS[command]
    page, errors = someone("about:blank"), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.emulate_media(reduced_motion="reduce")
    page.goto(alone(command), wait_until="networkidle")
    names = re.findall(r'data-panel="(\w+)"', page.content())
    assert names == ["setup", *panels.split()]
    if command in ENTERED:
        selector, value = ENTERED[command]
        field = page.locator(selector)
        field.select_option(value) if "select" in selector else field.fill(value)
    page.locator(button).first.click()
    page.locator(shown).first.wait_for(timeout=2 * SLOW)
    assert errors == []


def test_without_its_weights_and_the_hub_the_page_says_how_to_get_the_pair_that_chats(
    alone, someone, monkeypatch, tmp_path
):
    monkeypatch.setattr(smollm2, "installed", lambda: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert app._name(app.options.parse([], {})) == "stories"
    page = someone(alone("decode"))
    ready(page)
    expect(page.locator("#replay .look")).to_contain_text(smollm2.INSTALL)
    expect(page.locator("#prompts .stories")).to_be_visible()
    assert state(page)["recorded"]["name"] == "story"


def test_every_folder_of_a_panel_can_run_alone():
    folders = {path.parent.name for path in (ROOT / "components").glob("*/panel.py")}
    assert folders <= {*PANELS}
