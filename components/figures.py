"""The looks of the plotly figures, without their data.

A figure here has its traces, their marks and its axes; `assets/js` fills in what a round says, many
times a second, and hands the same object to `Plotly.react`. Every state has a shape or a line style
of its own beside its colour.
"""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go

ACCEPTED, REJECTED, SAMPLED = "#85C247", "#FF4444", "#ADE4FF"
DRAFT, TARGET = "#E69F00", "#3D8BD9"
UNVISITED = "#9AA3AF"
OUTLINE = "#1F2937"
TRANSPARENT = "rgba(0,0,0,0)"

RACE_ROWS = 8
"""Tokens shown in a race: their number never changes, so neither do the figure's proportions."""


def _layout(height: int, **changes: Any) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "font": {"size": 13},
        "hoverlabel": {"align": "left", "font": {"size": 13}},
        # Legends are HTML: they wrap on a phone, and cost nothing when the data change.
        "showlegend": False,
        "uirevision": "keep",
        **changes,
    }


def race() -> go.Figure:
    """Pairs of bars, arrival times e/q and e/p of the leading tokens, and a mark on each winner."""
    bar = {
        "orientation": "h",
        "hoverinfo": "text",
        "cliponaxis": False,
        "textangle": 0,
        "textposition": "outside",
        "textfont": {"size": 11},
        "constraintext": "none",
    }
    draft_marker = {
        "color": DRAFT,
        "pattern": {"shape": "/", "size": 5, "solidity": 0.2, "fgcolor": OUTLINE, "bgcolor": DRAFT},
    }
    winner = {"mode": "markers", "hoverinfo": "skip", "cliponaxis": False}
    line = {"color": OUTLINE, "width": 1}
    return go.Figure(
        [
            go.Bar(name="e / q, draft", marker=draft_marker, **bar),
            go.Bar(name="e / p, target", marker={"color": TARGET}, **bar),
            go.Scatter(
                name="first of the draft",
                marker={"symbol": "diamond", "size": 12, "color": DRAFT, "line": line},
                **winner,
            ),
            go.Scatter(
                name="first of the target",
                marker={"symbol": "star", "size": 15, "color": TARGET, "line": line},
                **winner,
            ),
        ],
        _layout(
            390,
            margin={"l": 8, "r": 8, "t": 4, "b": 42},
            barmode="group",
            bargap=0.22,
            bargroupgap=0.05,
            xaxis={
                "title": {"text": "arrival time (shorter is first)", "font": {"size": 13}},
                "zeroline": False,
            },
            yaxis={
                "range": [RACE_ROWS - 0.5, -0.5],
                "automargin": True,
                "fixedrange": True,
                "showgrid": False,
            },
        ),
    )


def tree() -> go.Figure:
    """Edges and nodes by status, accepted ones on top; the last token hangs on the last verified node."""
    edges = [
        _edges("unvisited", UNVISITED, "dot", 1.5),
        _edges("rejected", REJECTED, "dash", 1.5),
        _edges("accepted", ACCEPTED, "solid", 4),
        _edges("last", SAMPLED, "solid", 4),
    ]
    nodes = [
        _nodes("root: text so far", "square", UNVISITED, 13),
        _nodes("not visited", "circle-open", UNVISITED, 10),
        _nodes("rejected", "x", REJECTED, 11),
        _nodes("accepted", "circle", ACCEPTED, 15),
        _nodes("token that ends the round", "diamond", SAMPLED, 15),
    ]
    hidden = {"visible": False, "fixedrange": False}
    return go.Figure([*edges, *nodes], _layout(190, hovermode="closest", xaxis=hidden, yaxis=hidden))


def _edges(name: str, colour: str, dash: str, width: float) -> go.Scatter:
    line = {"color": colour, "dash": dash, "width": width}
    return go.Scatter(name=f"{name} edges", mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _nodes(name: str, symbol: str, colour: str, size: int) -> go.Scatter:
    line = {
        "color": colour if symbol.endswith("-open") else OUTLINE,
        "width": 2 if symbol.endswith("-open") else 1,
    }
    return go.Scatter(
        name=name,
        mode="markers+text",
        marker={"symbol": symbol, "color": colour, "size": size, "line": line},
        textposition="top center",
        hoverinfo="text",
        cliponaxis=False,
    )


def skeleton(figure: go.Figure) -> dict[str, Any]:
    """The figure as plain JSON data, without plotly's default template (7 KB of looks)."""
    plain = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    return plain
