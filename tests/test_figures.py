"""The figures' looks: every state is told apart without colour, and nothing but data is missing."""

from __future__ import annotations

import json

import pytest

from components import figures


@pytest.fixture(params=[figures.race, figures.tree], ids=["race", "tree"])
def skeleton(request):
    return figures.skeleton(request.param())


def test_a_skeleton_is_small_plain_json(skeleton):
    assert json.loads(json.dumps(skeleton)) == skeleton
    assert len(json.dumps(skeleton)) < 4000  # plotly's default template alone has 7 KB
    assert "template" not in skeleton["layout"]


def test_backgrounds_are_transparent_so_that_dark_mode_stays_dark(skeleton):
    assert skeleton["layout"]["paper_bgcolor"] == skeleton["layout"]["plot_bgcolor"] == figures.TRANSPARENT


def test_zoom_survives_updates(skeleton):
    assert skeleton["layout"]["uirevision"]


def test_nodes_are_told_apart_by_symbol_and_edges_by_line():
    tree = figures.tree()
    symbols = [trace.marker.symbol for trace in tree.data if trace.mode == "markers+text"]
    lines = [(trace.line.dash, trace.line.color) for trace in tree.data if trace.mode == "lines"]
    assert len(set(symbols)) == len(symbols) == 5
    assert len(set(lines)) == len(lines) == 4


def test_the_two_races_are_told_apart_by_pattern_and_their_winners_by_symbol():
    draft, target, draft_winner, target_winner = figures.race().data
    assert draft.marker.pattern.shape != target.marker.pattern.shape
    assert draft_winner.marker.symbol != target_winner.marker.symbol


def test_tokens_have_the_papers_colours():
    colours = {trace.name: trace.marker.color for trace in figures.tree().data}
    assert colours["accepted"] == "#85C247"
    assert colours["rejected"] == "#FF4444"
    assert colours["token that ends the round"] == "#ADE4FF"
