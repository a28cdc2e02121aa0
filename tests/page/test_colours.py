"""Colours are defined only in their sheet, readable on their tints, and distinguishable with colour
blindness."""

import re
from itertools import combinations

import numpy as np
import pytest

from specdec.figures.looks import colour, sheet
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS
from tests.conftest import ROOT

HEX = re.compile(r"#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b")
SHEET = "assets/shared/colours.css"
THEMES = ("light", "dark")
LEAST_DISTANCE = 15.0
"""CIE 1976 distance: 2 is just visible side by side, 15 is clearly another colour."""
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
"""Linear RGB as seen without the middle cones (Machado, Oliveira and Fernandes, 2009, severity 1)."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(hex_colour):
    encoded = np.array([int(hex_colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    dark, light = sorted(float(XYZ[1] @ linear(x)) for x in (a, b))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    f = [x ** (1 / 3) if x > 216 / 24389 else (24389 / 27 * x + 16) / 116 for x in XYZ @ rgb / XYZ.sum(1)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a, b):
    one, other = (lab((DEUTERANOPIA @ linear(colour)).clip(0, 1)) for colour in (a, b))
    return float(np.linalg.norm(one - other))


def files_with_colours():
    paths = [*(ROOT / "components").rglob("*.py"), *(ROOT / "components").rglob("*.html")]
    paths += (ROOT / "assets").rglob("*.css")
    paths += (ROOT / "assets").rglob("*.js")
    return {path.relative_to(ROOT).as_posix() for path in paths if HEX.search(path.read_text())}


def test_no_colour_has_a_number_outside_the_sheet():
    assert files_with_colours() == {SHEET}


def test_both_themes_have_the_same_colours():
    assert sheet()["light"].keys() == sheet()["dark"].keys()
    trees = {TOPOLOGIES[name].colour for name in FIXED}
    assert {*METHODS, *trees, "draft", "target", "ink", "bound"} <= sheet()["light"].keys()


def test_a_colour_that_is_not_in_the_sheet_is_refused():
    assert colour("draft") == "var(--draft)"
    with pytest.raises(KeyError):
        colour("orange")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("actor", ["draft", "target", "rejected"])
def test_text_on_a_tint_can_be_read(theme, actor):
    colours = sheet()[theme]
    for text in (actor, "ink"):
        assert contrast(colours[text], colours[f"{actor}-tint"]) >= 4.5, text


@pytest.mark.parametrize("entries", [[*METHODS.values()], [TOPOLOGIES[name] for name in FIXED]])
def test_methods_and_topologies_differ_in_mark_and_dash(entries):
    for look in ("mark", "dash"):
        assert len({getattr(entry, look) for entry in entries}) == len(entries)


BESIDE = [*combinations([name for name in METHODS if name != "ar"], 2), ("draft", "target")]
"""Colours that figures draw beside each other: methods, the rule of SpecInfer and its tree, both models."""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("pair", [*BESIDE, ("specinfer", TOPOLOGIES["specinfer"].colour)], ids=" ".join)
def test_colours_differ_for_who_lacks_green(theme, pair):
    assert distance(*(sheet()[theme][name] for name in pair)) > LEAST_DISTANCE


def test_the_rule_of_specinfer_is_told_from_its_tree():
    rule, tree = METHODS["specinfer"], TOPOLOGIES["specinfer"]
    assert rule.mark != tree.mark
    assert "tree" in tree.name
    assert "tree" in tree.long_name
    assert rule.name not in {entry.name for entry in TOPOLOGIES.values()}
