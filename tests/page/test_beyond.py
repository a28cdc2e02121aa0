"""The results beyond the paper as the page shows them, from the committed summaries."""

import json
import re
from pathlib import Path

import pytest

from components.experiments import beyond

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def views():
    return {view["id"]: view for view in beyond.views()}


@pytest.mark.parametrize("name", ["rounding", "limits", "lists", "ahead"])
def test_each_result_has_a_figure_with_intervals_one_sentence_and_a_table(views, name):
    view = views[name]
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert view["sentence"].endswith(".")
    assert {len(row) for row in view["table"]["rows"]} == {len(view["table"]["columns"])}
    traces = view["figure"]["data"]
    assert any(sum(trace.get("error_y", {}).get("array", [0])) > 0 for trace in traces)
    legend = (ROOT / "assets" / "shared" / "legend.js").read_text()
    for trace in traces:
        assert re.search(rf'^  "?{trace.get("marker", {"symbol": "circle"})["symbol"]}"?: "M', legend, re.M)
    named = [trace for trace in traces if trace["legendgroup"] == trace["name"]]
    looks = [(trace.get("marker", {}).get("symbol"), trace.get("line", {}).get("dash")) for trace in named]
    looks = [(look, trace.get("line", {}).get("color")) for look, trace in zip(looks, named, strict=True)]
    assert len(set(looks)) == len({trace["name"] for trace in named})


def test_the_sentence_on_rounding_says_what_was_measured(views):
    rows = {tuple(row[:2]): row for row in views["rounding"]["table"]["rows"]}
    exact = rows["stories", "bfloat16, torch"][4].split()[0]
    assert f"bfloat16 changes {exact}% of the story model's tokens" in views["rounding"]["sentence"]
