"""What the page's address may hold: every control has a name there, and what is known of it is true."""

import asyncio
import json

import gradio as gr
import pytest

from components.decode import controls
from components.losslessness import panel as losslessness
from components.page import setup
from components.page.settings import TABLE
from components.payoff import presets as payoff
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab


@pytest.fixture(scope="module")
def fields():
    async def build():
        with gr.Blocks():
            return controls.build(None), losslessness.panel()

    return asyncio.run(build())  # outside a running loop, Gradio opens loops that it never closes


@pytest.mark.parametrize(
    ("field", "described"),
    [
        (gr.Textbox("hello"), {"kind": "text", "default": "hello"}),
        (gr.Checkbox(True), {"kind": "flag", "default": True}),
        (
            gr.Radio([("A", "a"), ("B", "b")], value="b"),
            {"kind": "choice", "default": "b", "choices": ["a", "b"]},
        ),
        (gr.Dropdown(["x", "y"], value="x"), {"kind": "choice", "default": "x", "choices": ["x", "y"]}),
        (
            gr.Slider(1, 64, 8, step=1),
            {"kind": "number", "default": 8, "least": 1, "most": 64, "whole": True},
        ),
        (
            gr.Slider(0, 2, 1.0, step=0.05),
            {"kind": "number", "default": 1.0, "least": 0, "most": 2, "whole": False},
        ),
        (
            gr.Number(7, precision=0, minimum=0),
            {"kind": "number", "default": 7, "least": 0, "most": None, "whole": True},
        ),
        (gr.Number(7), {"kind": "number", "default": 7, "least": None, "most": None, "whole": False}),
    ],
)
def test_a_component_says_what_an_address_may_hold(field, described):
    assert setup.describe(field) == described


def test_a_component_without_a_form_is_named():
    with pytest.raises(TypeError, match="Image has no form in the address"):
        setup.describe(gr.Image())


def test_every_setting_of_a_run_has_a_name(fields):
    assert {row.setting.address for row in TABLE.values()} <= {*fields[0]}


def test_defaults_fit_what_the_address_may_hold(fields):
    for name, field in {**fields[0], **fields[1]}.items():
        described = setup.describe(field)
        json.dumps(described)  # it travels to the browser as it is
        if described["kind"] == "choice":
            assert described["default"] in described["choices"], name
        if described["kind"] == "number":
            least, most = described["least"], described["most"]
            assert least is None or least <= described["default"], name
            assert most is None or described["default"] <= most, name


def test_names_that_stand_alone_are_told_apart(fields):
    alone = [*fields[0], *setup.RUN, "tab", "projector", "lesson", "step"]
    assert len(set(alone)) == len(alone)
    assert not any("." in name for name in alone)
    assert not set(alone) & set(setup.VIEWS)


@pytest.mark.parametrize("lab", [race_lab, tree_lab, payoff])
def test_examples_keep_their_names_in_the_address(lab):
    """Links to them are out in the world: a name may be added, none may change."""
    known = {
        race_lab: ["cat", "equal", "disjoint", "adversarial", "two", "lead"],
        tree_lab: ["ersd", "gsd", "halves", "first", "coin", "weak", "increasing"],
        payoff: ["smollm2", "paper", "laptop", "gpu"],
    }
    presets = lab.presets()
    assert [preset.id for preset in (presets if isinstance(presets, list) else presets.values())] == known[
        lab
    ]
