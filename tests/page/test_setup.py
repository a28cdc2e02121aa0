"""The page's address: every control has a name there, and its description is true."""

import json

import pytest

from components.decode import controls
from components.losslessness import panel as losslessness
from components.page import setup
from components.page.forms import Form
from components.payoff import presets as payoff
from components.race_lab import panel as race_lab
from components.tree_lab import panel as tree_lab


@pytest.fixture(scope="module")
def fields():
    page = controls.panel(None) + losslessness.panel()
    return [page.fields[controls.PART], page.fields[losslessness.PART]]


form = Form("part")


def number(default, least=None, most=None, whole=False):
    return {"kind": "number", "default": default, "least": least, "most": most, "whole": whole}


def choice(default, choices):
    return {"kind": "choice", "default": default, "choices": choices}


@pytest.mark.parametrize(
    ("field", "described"),
    [
        (form.text("name", "hello", ""), {"kind": "text", "default": "hello"}),
        (form.hidden("name", "hello"), {"kind": "text", "default": "hello"}),
        (form.flag("name", True, ""), {"kind": "flag", "default": True}),
        (form.radio("name", "b", "", [("A", "a"), ("B", "b")]), choice("b", ["a", "b"])),
        (form.menu("name", "x", "", [("X", "x"), ("Y", "y")]), choice("x", ["x", "y"])),
        (form.slider("name", 8, "", least=1, most=64), number(8, 1, 64, whole=True)),
        (form.slider("name", 1.0, "", least=0, most=2, step=0.05), number(1.0, 0, 2)),
        (form.number("name", 7, "", least=0, whole=True), number(7, 0, whole=True)),
        (form.number("name", 7, ""), number(7)),
    ],
)
def test_a_field_says_what_an_address_may_hold_and_is_found_by_its_name(field, described):
    assert field.fields == {"part": {"name": described}}
    assert 'data-form="part" data-name="name"' in field.html


def test_a_value_in_a_field_is_text_and_no_html():
    hostile = '"><script>alert(1)</script>'
    for field in (
        form.text("n", hostile, ""),
        form.text("n", hostile, "", lines=2),
        form.hidden("n", hostile),
    ):
        assert "<script" not in field.html


def test_defaults_fit_what_the_address_may_hold(fields):
    for name, described in {**fields[0], **fields[1]}.items():
        json.dumps(described)  # the value is sent to the browser unchanged
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
    """Links to these names exist elsewhere: a name may be added, but none may change."""
    names = {
        race_lab: ["cat", "equal", "disjoint", "adversarial", "two", "lead"],
        tree_lab: ["ersd", "gsd", "halves", "first", "coin", "weak", "increasing"],
        payoff: ["smollm2", "paper", "laptop", "gpu"],
    }
    assert [*lab.presets()] == names[lab]
