"""The looks of the laboratories' plotly figures, without their data (see `figures`)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from components.page.figures import DRAFT, OUTLINE, TARGET, TRANSPARENT

ERSD, GSD = DRAFT, TARGET
"""Colours of the methods, the same as in the experiments' figures."""
INK = "#7A7F87"
"""Bounds: the same contrast on light and on dark ground."""


def convergence() -> go.Figure:
    """Acceptance of the first drafted token against races done: both methods, exact values, bounds."""
    return go.Figure(
        [
            _band(ERSD),
            _band(GSD),
            _line("ERSD, exact", ERSD, "dash", 1.5),
            _line("GSD, exact = 1 − TV: upper bound", GSD, "dash", 1.5),
            _line("(1 − TV) / (1 + TV): lower bound", INK, "longdash", 2),
            _line("harmonic mean: lower bound", INK, "dot", 2),
            _line("ERSD, measured", ERSD, "solid", 3),
            _line("GSD, measured", GSD, "solid", 3),
            # ends of the measured curves: a shape for each method
            _marks("ERSD", ERSD, "square"),
            _marks("GSD", GSD, "circle"),
        ],
        _layout(
            300,
            xaxis={"title": {"text": "races"}, "type": "log"},
            yaxis={"title": {"text": "first draft accepted"}, "tickformat": ".0%"},
        ),
    )


def by_index() -> go.Figure:
    """Acceptance by child index: bars measured, with intervals, and marks for the exact values."""
    bars = [
        go.Bar(
            name=f"{name}, measured",
            marker={
                "color": colour,
                "pattern": {"shape": pattern, "fgcolor": OUTLINE, "bgcolor": colour, "solidity": 0.2},
            },
            error_y={"type": "data", "symmetric": False, "color": INK, "thickness": 1.5, "width": 4},
            hoverinfo="text",
        )
        for name, colour, pattern in (("ERSD", ERSD, "/"), ("GSD", GSD, ""))
    ]
    exact = [
        _marks(f"{name}, exact", colour, symbol)
        for name, colour, symbol in (("ERSD", ERSD, "square"), ("GSD", GSD, "circle"))
    ]
    return go.Figure(
        [*bars, *exact],
        _layout(
            300,
            barmode="group",
            bargap=0.3,
            xaxis={"title": {"text": "child index"}, "dtick": 1},
            yaxis={"title": {"text": "accepted"}, "tickformat": ".0%", "rangemode": "tozero"},
        ),
    )


def tokens_against_k() -> go.Figure:
    """Expected tokens per target call against k: four topologies, two bounds, and a line at the chosen k."""
    curves = [
        _line("optimal tree", "#4CA64C", "solid", 3),
        _line("SpecInfer's tree", "#B07CC6", "dashdot", 2),
        _line("sequence", "#3D8BD9", "dash", 2),
        _line("batch", "#E69F00", "dot", 2.5),
        _line("Lemma 4.2: upper bound", INK, "solid", 1.5),
        _line("Theorem 4.1: upper bound", INK, "longdash", 1.5),
    ]
    return go.Figure(
        [*curves, _line("k", INK, "dot", 1), _marks("optimal tree at k", "#4CA64C", "star")],
        _layout(
            360,
            xaxis={"title": {"text": "drafted tokens k"}, "type": "log"},
            yaxis={"title": {"text": "tokens per target call"}, "rangemode": "tozero"},
        ),
    )


def _layout(height: int, **changes: Any) -> dict[str, Any]:
    for axis in (changes["xaxis"], changes["yaxis"]):
        title = axis["title"] | {"font": {"size": 13}}
        axis |= {"zeroline": False, "automargin": True, "title": title}
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "font": {"size": 13},
        "hoverlabel": {"align": "left", "font": {"size": 13}},
        # Legends are HTML: they wrap on a phone, and cost nothing when the data change.
        "showlegend": False,
        **changes,
    }


def _line(name: str, colour: str, dash: str, width: float) -> go.Scatter:
    line = {"color": colour, "dash": dash, "width": width}
    return go.Scatter(name=name, mode="lines", line=line, hovertemplate="%{y:.4~g} at %{x}")


def _band(colour: str) -> go.Scatter:
    return go.Scatter(mode="none", fill="toself", fillcolor=colour, opacity=0.22, hoverinfo="skip")


def _marks(name: str, colour: str, symbol: str) -> go.Scatter:
    marker = {"symbol": symbol, "size": 10, "color": colour, "line": {"color": OUTLINE, "width": 1}}
    return go.Scatter(name=name, mode="markers", marker=marker, hoverinfo="text", cliponaxis=False)
