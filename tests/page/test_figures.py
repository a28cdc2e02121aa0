"""The figures' looks: little data, transparent, and distinguishable without colour."""

import json

import pytest

from specdec.figures import labs, looks

FIGURES = [labs.convergence, labs.by_index, labs.tokens_against_k]


@pytest.fixture(params=FIGURES, ids=lambda figure: figure.__name__)
def skeleton(request):
    return looks.skeleton(request.param())


def test_a_skeleton_is_small_plain_json_and_transparent_so_that_dark_mode_stays_dark(skeleton):
    assert json.loads(json.dumps(skeleton)) == skeleton
    assert len(json.dumps(skeleton)) < 4000  # plotly's default template alone has 7 KB
    assert "template" not in skeleton["layout"]
    assert skeleton["layout"]["paper_bgcolor"] == skeleton["layout"]["plot_bgcolor"] == looks.TRANSPARENT


def test_traces_are_told_apart_without_colour(skeleton):
    def look(trace):
        marker, line = trace.get("marker", {}), trace.get("line", {})
        shape = marker.get("symbol"), line.get("dash")
        return trace["type"], trace.get("fill"), line.get("width"), *shape

    traces = [trace for trace in skeleton["data"] if trace.get("name") and "measured" not in trace["name"]]
    looks = [look(trace) for trace in traces if trace.get("mode") == "lines" and "exact" not in trace["name"]]
    assert len(set(looks)) == len(looks)
