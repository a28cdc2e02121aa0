"""Figures of an experiment's summary (`specdec.experiments`): pure functions, summary -> plotly figure.

Each has a name and unit on both axes, the measured values' 95% intervals, marks and line styles that
tell its curves apart without colour, and colours with a contrast of 3 : 1 on light and on dark paper.
What belongs together has one `legendgroup`, whose name the legend shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

INK = "#7A7F87"
"""Bounds and axes: the same contrast on white as on the page's dark ground."""
_GRID = "rgba(128, 128, 128, 0.25)"
_TICKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
_TRANSPARENT = "rgba(0, 0, 0, 0)"

STRATEGIES = {
    "sequence": ("sequence", "#3D8BD9", "circle"),
    "batch": ("batch", "#C77F00", "square"),
    "specinfer": ("SpecInfer's tree", "#B07CC6", "diamond"),
    "optimal": ("optimal tree", "#3A9A3A", "star"),
}
"""Strategy -> its name, colour and mark."""
METHODS = {"gsd": ("GSD", "#3D8BD9", "circle", "solid"), "ersd": ("ERSD", "#C77F00", "square", "dash")}
"""Method -> its name, colour, mark and line style."""

Summary = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def tokens_against_k(summary: Summary, method: str, ink: str = INK) -> go.Figure:
    """Tokens per target call of every strategy: measured, predicted, and the optimal tree's bounds."""
    figure = axes("drafted tokens k", "tokens per target call", ink, xaxis_type="log")
    for strategy, (name, colour, mark) in STRATEGIES.items():
        rows = _rows(summary["points"], method, strategy)
        if rows:
            ks = [row["k"] for row in rows]
            predicted = _column(rows, "prediction")
            figure.add_trace(line(f"{name}, predicted", ks, predicted, colour, "dot", group=name))
            figure.add_trace(_measured(name, ks, rows, colour, mark))
    bounds = summary["bounds"][method]
    for name, key, dash in (
        ("smallest upper bound", "minimal", "solid"),
        (f"upper bound, m = {bounds['fixed_m']}", "fixed_m", "dash"),
    ):
        rows = [row for row in bounds["by_k"] if row[key] is not None]
        if rows:
            figure.add_trace(line(name, _column(rows, "k"), _column(rows, key), ink, dash))
    return figure


def increments_against_k(summary: Summary, method: str, ink: str = INK) -> go.Figure:
    """What each additional drafted token adds: measured, predicted, and by the bound with m fixed."""
    figure = axes(
        "drafted tokens k",
        "tokens per target call, per drafted token",
        ink,
        xaxis_type="log",
        yaxis_type="log",
    )
    for strategy, (name, colour, mark) in STRATEGIES.items():
        rows = _rows(summary["increments"], method, strategy)
        if rows:
            ks = [_middle(row["from"], row["to"]) for row in rows]
            predicted = _positive(_column(rows, "prediction"))
            figure.add_trace(line(f"{name}, predicted", ks, predicted, colour, "dot", group=name))
            figure.add_trace(_measured(name, ks, rows, colour, mark, positive=True))
    bounds = [row for row in summary["bounds"][method]["by_k"] if row["fixed_m"] is not None]
    steps = list(pairwise(bounds))
    changes = [(b["fixed_m"] - a["fixed_m"]) / (b["k"] - a["k"]) for a, b in steps]
    ks = [_middle(a["k"], b["k"]) for a, b in steps]
    figure.add_trace(line("upper bound, m fixed", ks, _positive(changes), ink, "dash"))
    return figure


def acceptance_by_index(summary: Summary, ink: str = INK) -> go.Figure:
    """Probability that the child with each index is the accepted one, of both methods."""
    figure = axes("child index", "probability of acceptance", ink, yaxis_type="log")
    for method, acceptance in summary["acceptance"].items():
        name, colour, mark, dash = METHODS[method]
        used = acceptance["by_index"]
        indices = list(range(len(used)))
        figure.add_trace(line(f"{name}, as used", indices, _positive(used), colour, dash, group=name))
        rows = [row | {"value": row["rate"]} for row in acceptance["batch"] if row["rate"]]
        figure.add_trace(_measured(name, _column(rows, "index"), rows, colour, mark, positive=True))
        if contexts := acceptance["contexts"]:
            computed = _positive(contexts["by_index"])
            indices = list(range(len(computed)))
            figure.add_trace(line(f"{name}, computed", indices, computed, colour, "dot", group=name))
    return figure


def gsd_minus_ersd(summary: Summary, ink: str = INK) -> go.Figure:
    """By how many tokens per target call GSD is ahead, on the same prompts and seeds."""
    title = "GSD minus ERSD, tokens per target call"
    figure = axes("drafted tokens k", title, ink, xaxis_type="log")
    for strategy, (name, colour, mark) in STRATEGIES.items():
        rows = [row for row in summary["differences"] if row["strategy"] == strategy]
        if rows:
            figure.add_trace(_measured(name, _column(rows, "k"), rows, colour, mark, lines=True))
    figure.add_hline(y=0, line={"color": ink, "width": 1})
    return figure


def axes(x: str, y: str, ink: str = INK, **changes: Any) -> go.Figure:
    """An empty figure with these axis titles; `changes` go to its layout. Log axes count drafted tokens."""
    axis = {"gridcolor": _GRID, "linecolor": ink, "zeroline": False, "automargin": True}
    figure = go.Figure(
        layout={
            "template": "none",
            "height": 430,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 12},
            "paper_bgcolor": _TRANSPARENT,
            "plot_bgcolor": _TRANSPARENT,
            "font": {"size": 13, "color": ink},
            "xaxis": axis | {"title": {"text": x, "font": {"size": 13}}},
            "yaxis": axis | {"title": {"text": y, "font": {"size": 13}}},
            # the page has a legend of its own, which wraps on a phone
            "showlegend": False,
            "hovermode": "closest",
        }
    )
    figure.update_layout(**changes)
    if figure.layout.xaxis.type == "log":
        figure.update_xaxes(tickvals=_TICKS, ticktext=[str(k) for k in _TICKS])
    if figure.layout.yaxis.type == "log":
        figure.update_yaxes(dtick=1, exponentformat="power")
    return figure


def line(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, dash: str, group: str | None = None
) -> go.Scatter:
    """A curve; `group`: the entry of the legend that it belongs to, its own where there is none."""
    return go.Scatter(
        name=name,
        legendgroup=group or name,
        x=list(x),
        y=list(y),
        mode="lines",
        line={"color": colour, "dash": dash, "width": 2},
        hovertemplate="%{y:.3g} at %{x:.3g}",
    )


def _measured(
    name: str,
    x: Sequence[float],
    rows: Rows,
    colour: str,
    mark: str,
    positive: bool = False,
    lines: bool = False,
) -> go.Scatter:
    """Marks with intervals; positive: on a logarithmic axis, where what is not above 0 is left out."""
    kept = [(at, row) for at, row in zip(x, rows, strict=True) if not positive or row["value"] > 0]
    values = [row["value"] for _, row in kept]
    return go.Scatter(
        name=name,
        legendgroup=name,
        x=[at for at, _ in kept],
        y=values,
        mode="lines+markers" if lines else "markers",
        marker={"symbol": mark, "size": 9, "color": colour},
        line={"color": colour, "width": 1.5},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [_beyond(row["high"], row["value"]) for _, row in kept],
            "arrayminus": [_beyond(row["value"], row["low"], positive) for _, row in kept],
            "color": colour,
            "thickness": 1.5,
            "width": 3,
        },
        customdata=[[row["low"], row["high"]] for _, row in kept],
        hovertemplate="%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g}) at %{x:.3g}",
    )


def _beyond(high: float | None, low: float | None, positive: bool = False) -> float:
    """Length of half an interval; where it is not known, none. On a logarithmic axis it ends above 0, within
    a power of ten, or it would be all that is seen."""
    if high is None or low is None:
        return 0.0
    return high - max(low, high / 10) if positive else high - low


def _rows(rows: Rows, method: str, strategy: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if (row["method"], row["strategy"]) == (method, strategy)]


def _column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


def _positive(values: Sequence[float]) -> list[float | None]:
    return [value if value > 0 else None for value in values]


def _middle(a: float, b: float) -> float:
    return (a * b) ** 0.5
