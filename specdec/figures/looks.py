"""The look of all plotly figures: as plain data for the page, or as complete figures for a notebook.

The page gets the traces, their marks and the axes. Its scripts fill in the numbers and pass the figure to
`Plotly.react`. A colour is a name from `assets/shared/colours.css`, which the browser resolves when it draws,
so the same figure fits a light and a dark page. For a notebook, `whole` resolves the names. Traces that
belong together share one `legendgroup`, whose name is shown in the legend.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from specdec.notebook.colours import sheet

TRANSPARENT = "rgba(0,0,0,0)"
_TICKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def colour(name: str) -> str:
    """The colour with this name in the style sheet, in a form that plotly passes on to the browser.

    KeyError for an unknown name.
    """
    sheet()["light"][name], sheet()["dark"][name]
    return f"var(--{name})"


INK, BOUND = colour("ink"), colour("bound")


def skeleton(figure: go.Figure) -> dict[str, Any]:
    """The figure as plain JSON data, without plotly's default template of 7 KB."""
    plain = json.loads(figure.to_json())
    plain["layout"].pop("template", None)
    return plain


def whole(figure: go.Figure) -> go.Figure:
    """The figure for a notebook, with a legend and the style sheet's light colours, on a light background."""
    light = sheet()["light"]
    text = re.sub(r"var\(--([a-z-]+)\)", lambda match: light[match[1]], figure.to_json())
    resolved = go.Figure(json.loads(text))
    titles = {"linecolor": light["line"], "gridcolor": light["line"], "ticks": "outside"}
    resolved.update_xaxes(**titles).update_yaxes(**titles)
    return resolved.update_layout(
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        paper_bgcolor=light["paper"],
        plot_bgcolor=light["paper"],
        font={"color": light["ink"], "family": "system-ui, sans-serif"},
        margin={"l": 12, "r": 16, "t": 12, "b": 12},
    )


def axes(x: str, y: str, height: int = 430, **changes: Any) -> go.Figure:
    """An empty figure with these axis titles; `changes` go to its layout."""
    axis = {"zeroline": False, "automargin": True}
    figure = go.Figure(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
            "paper_bgcolor": TRANSPARENT,
            "plot_bgcolor": TRANSPARENT,
            "font": {"size": 13},
            "hoverlabel": {"align": "left", "font": {"size": 13}},
            "hovermode": "closest",
            "xaxis": axis | {"title": {"text": x, "font": {"size": 13}}},
            "yaxis": axis | {"title": {"text": y, "font": {"size": 13}}},
            # Legends are HTML: they wrap on a phone, and cost nothing when the data change.
            "showlegend": False,
        }
    )
    return figure.update_layout(**changes)


def log_axes(figure: go.Figure) -> go.Figure:
    """Sets the ticks of logarithmic axes: numbers of drafted tokens on x, powers of ten on y."""
    if figure.layout.xaxis.type == "log":
        figure.update_xaxes(tickvals=_TICKS, ticktext=[str(k) for k in _TICKS])
    if figure.layout.yaxis.type == "log":
        figure.update_yaxes(dtick=1, exponentformat="power")
    return figure


def line(
    name: str,
    colour: str,
    dash: str,
    x: Sequence[float] = (),
    y: Sequence[float | None] = (),
    group: str | None = None,
    width: float = 2,
) -> go.Scatter:
    """A curve. group: the legend entry to which the curve belongs; by default the curve's own name."""
    return go.Scatter(
        name=name,
        legendgroup=group or name,
        x=list(x),
        y=list(y),
        mode="lines",
        line={"color": colour, "dash": dash, "width": width},
        hovertemplate="%{y:.4~g} at %{x:.4~r}",
    )


def marks(name: str, colour: str, symbol: str, group: str | None = None) -> go.Scatter:
    """Single points with an outline. The hover text of each point comes with the data."""
    marker = {"symbol": symbol, "size": 10, "color": colour, "line": {"color": INK, "width": 1}}
    return go.Scatter(
        name=name,
        legendgroup=group or name,
        mode="markers",
        marker=marker,
        hoverinfo="text",
        cliponaxis=False,
    )


def hollow(colour: str) -> dict[str, Any]:
    """The marker of a hollow bar, which can be distinguished from a full bar without colours.

    Patterns are not used, because plotly refers to a pattern by the page's address, which changes.
    """
    return {"color": TRANSPARENT, "line": {"color": colour, "width": 2}}


def interval(colour: str) -> dict[str, Any]:
    """The style of error bars."""
    return {"type": "data", "symmetric": False, "color": colour, "thickness": 1.5, "width": 3}
