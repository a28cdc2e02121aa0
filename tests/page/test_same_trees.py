"""The sentences about the experiments on the same trees: the best rules, and the effect of the
temperature."""

import json

import pytest

from components.experiments import same_trees, views
from specdec.methods import DRAFTING, METHODS


def estimate(value, half=0.1):
    return {"value": value, "low": value - half, "high": value + half}


def rules_summary(values):
    """Values by (temperature, tree) in the order of the methods that draft."""
    points = []
    for (temperature, tree), row in values.items():
        for method, value in zip(DRAFTING, row, strict=True):
            point = {"temperature": temperature, "tree": tree, "method": method, "tokens": 1000}
            point |= estimate(value) | {"more_than_gsd": estimate(value - row[0], 0.05 * (value != row[0]))}
            points.append(point | {"less_than_best": estimate(max(row) - value, 0.05)})
    return {"settings": {}, "pair": {}, "runs": 1, "points": points}


@pytest.fixture
def summary():
    warm = {(1.0, "batch(4)"): [1.8, 2.0, 1.7, 1.75, 1.97], (1.0, "sequence(4)"): [2.5, 2.2, 2.7, 2.5, 2.5]}
    return rules_summary(warm | {(0.0, "batch(4)"): [1.5] * 5})


def test_the_best_are_those_that_the_interval_does_not_tell_from_the_first(summary):
    assert same_trees.best(summary["points"], "sequence(4)") == ["Traversal"]
    warm = [row for row in summary["points"] if row["temperature"]]
    assert same_trees.best(warm, "batch(4)") == ["ERSD", "SpecTr"]
    sentence = same_trees.rules(summary)["sentence"]
    assert "ERSD and SpecTr on batch(4); Traversal on sequence(4)." in sentence
    assert "At temperature 0 all rules need the same target calls" in sentence


def test_a_gain_at_temperature_0_is_not_denied(summary):
    summary["points"][-1]["more_than_gsd"] = estimate(0.2)
    assert "temperature 0" not in same_trees.rules(summary)["sentence"]


def test_the_figure_has_a_mark_with_an_interval_for_each_rule_and_tree(summary):
    view = same_trees.rules(summary)
    traces = view["figure"]["data"]
    assert [trace["name"] for trace in traces] == [METHODS[m].name for m in DRAFTING if m != "gsd"]
    assert all(len(trace["x"]) == len(trace["error_y"]["array"]) == 2 for trace in traces)
    ticks = view["figure"]["layout"]["xaxis"]["ticktext"]
    assert ticks == ["batch<br>(4)<br>1.80", "sequence<br>(4)<br>2.50"]
    rows = view["table"]["rows"]
    assert len(rows) == len(summary["points"])
    assert [row[2] for row in rows if row[1] == "1" and "best" in row] == ["ERSD", "SpecTr", "Traversal"]


def test_the_draft_s_temperature_is_told_with_its_best_on_each_tree():
    points = [
        {"tree": tree, "draft_temperature": t, "tokens": 900}
        | estimate(value)
        | {"gain": estimate(value - one, 0.2)}
        for tree, one, row in (("sequence(4)", 2.0, (1.9, 2.0, 2.1)), ("optimal(8)", 3.0, (2.9, 3.0, 2.5)))
        for t, value in zip((0.5, 1.0, 1.5), row, strict=True)
    ]
    view = same_trees.draft_temperature({"points": points, "runs": 12})
    assert (
        "1.5 on sequence(4) (the interval of its gain contains 0) and 1 on optimal(8). All 12"
        in view["sentence"]
    )
    points[2]["gain"]["low"] = 0.02
    sure = same_trees.draft_temperature({"points": points, "runs": 12})["sentence"]
    assert "1.5 on sequence(4) (0.100 more than at 1)" in sure
    assert view["sentence"].endswith("2 texts, at least 900 tokens; with so few, the intervals are rough.")
    assert [trace["name"] for trace in view["figure"]["data"]] == ["sequence(4)", "optimal(8)"]
    assert len(view["table"]["rows"]) == 6


def test_shipped_results_are_equal_at_temperature_0():
    summary = json.loads((views.RESULTS / "rules.json").read_text())
    cold = [row for row in summary["points"] if row["temperature"] == 0]
    assert len(cold) == 4 * len(DRAFTING)
    assert all(row["more_than_gsd"]["value"] == 0 for row in cold)
