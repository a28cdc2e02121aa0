"""Colours are defined only in their sheet, readable on their tints, and distinguishable with colour
blindness."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from specdec.figures.looks import colour, sheet
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
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


def distance(a, b, seen=DEUTERANOPIA):
    return float(np.linalg.norm(lab((seen @ linear(a)).clip(0, 1)) - lab((seen @ linear(b)).clip(0, 1))))


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


def test_contrast_and_distance_are_those_of_the_standards():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert distance("#000000", "#ffffff", np.eye(3)) == pytest.approx(100, abs=0.1)
    # a red and a green that differ for most people, but not for these
    assert distance("#b00000", "#5f5f00", np.eye(3)) > 4 * distance("#b00000", "#5f5f00")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("pair", [*combinations(METHODS, 2)], ids=" ".join)
def test_methods_differ_in_mark_and_dash_and_for_who_lacks_green_in_colour(theme, pair):
    one, other = (METHODS[name] for name in pair)
    assert one.mark != other.mark
    assert one.dash != other.dash
    if "ar" not in pair:  # colours that figures draw beside each other
        assert distance(*(sheet()[theme][name] for name in pair)) > LEAST_DISTANCE


@pytest.mark.parametrize("pair", [*combinations(FIXED, 2)], ids=" ".join)
def test_topologies_differ_in_mark_and_dash(pair):
    one, other = (TOPOLOGIES[name] for name in pair)
    assert one.mark != other.mark
    assert one.dash != other.dash


@pytest.mark.parametrize("theme", THEMES)
def test_the_rule_of_specinfer_is_told_from_its_tree(theme):
    rule, tree = METHODS["specinfer"], TOPOLOGIES["specinfer"]
    assert distance(sheet()[theme]["specinfer"], sheet()[theme][tree.colour]) > LEAST_DISTANCE
    assert rule.mark != tree.mark
    assert "tree" in tree.name
    assert "tree" in tree.long_name
    assert rule.name not in {entry.name for entry in TOPOLOGIES.values()}


@pytest.mark.parametrize("theme", THEMES)
def test_what_the_draft_and_the_target_did_differs_for_who_lacks_green(theme):
    assert distance(sheet()[theme]["draft"], sheet()[theme]["target"]) > LEAST_DISTANCE
