"""The sentence about many texts at once: the fastest k of each number of texts, and the choice of auto."""

import pytest

from components.experiments import serving


def point(at_once, tree, k, value, gain):
    spread = {"value": value, "low": 0.9 * value, "high": 1.1 * value}
    gains = {"value": gain, "low": 0.9 * gain, "high": 1.1 * gain}
    return {"at_once": at_once, "tree": tree, "k": k} | spread | {"gain": gains}


@pytest.fixture
def summary():
    rates = {1: (300, 450, 400), 16: (1300, 1200, 900)}
    points = [
        point(at_once, str(k), k, rate, rate / row[0])
        for at_once, row in rates.items()
        for k, rate in zip((0, 2, 8), row, strict=True)
    ]
    points += [point(1, "auto", 2.5, 440, 440 / 300), point(16, "auto", 0.0, 1290, 0.99)]
    about = {"settings": {}, "pair": {}, "machine": {"processor": "some", "date": "today"}, "repeats": 5}
    return about | {"points": points}


def test_the_sentence_names_the_fastest_tree_of_each_number_of_texts(summary):
    """The gain is a median too, so the fastest tree need not have the highest gain."""
    summary["points"][1]["gain"]["value"] = 1.4
    summary["points"][2]["gain"]["value"] = 1.45
    sentence = serving.view(summary)["sentence"]
    assert ": 1: k = 2 (450, 1.40); " in sentence
    assert "16: k = 0." in sentence
    assert "A busy server should therefore draft less" in sentence


def test_what_is_said_of_serving_is_said_only_where_it_was_found(summary):
    for row in summary["points"]:
        if (row["at_once"], row["tree"]) == (16, "8"):
            row["value"], row["gain"]["value"] = 2000, 2000 / 1300
    sentence = serving.view(summary)["sentence"]
    assert "16: k = 8" in sentence
    assert "A busy server" not in sentence


def test_the_figure_has_a_curve_for_each_number_of_texts_and_stars_for_auto(summary):
    view = serving.view(summary)
    *curves, stars = view["figure"]["data"]
    assert [curve["name"] for curve in curves] == ["1 text", "16 texts"]
    assert [curve["x"] for curve in curves] == [[0, 2, 8]] * 2
    assert len({(curve["marker"]["symbol"], curve["line"]["dash"]) for curve in curves}) == 2
    assert (stars["x"], stars["y"]) == ([2.5, 0.0], [440, 1290])
    rows = view["table"]["rows"]
    assert len(rows) == len(summary["points"])
    assert rows[-2][1] == "auto: 2.5 on average"
