"""Figures of an experiment's summary (`research.experiments`): pure functions that turn it into plotly
figures.

Each axis has a name and a unit. Measured values have 95% intervals, and marks and line styles distinguish the
curves without colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from components.experiments.words import chosen
from research.experiments.settings import STRATEGIES
from specdec.figures.looks import BOUND, axes, colour, interval, line, log_axes
from specdec.figures.topologies import TOPOLOGIES
from specdec.methods import METHODS

Summary = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def tokens_against_k(summary: Summary, method: str) -> go.Figure:
    """Tokens per target call of every strategy: measured, predicted, and the optimal tree's bounds."""
    figure = axes("drafted tokens k", "tokens per target call", xaxis_type="log")
    _add_strategies(figure, [row | {"at": row["k"]} for row in summary["points"]], method)
    bounds = summary["bounds"][method]
    for name, key, dash in (
        ("smallest upper bound", "minimal", "solid"),
        (f"upper bound, m = {bounds['fixed_m']}", "fixed_m", "dash"),
    ):
        rows = [row for row in bounds["by_k"] if row[key] is not None]
        if rows:
            figure.add_trace(line(name, BOUND, dash, _column(rows, "k"), _column(rows, key)))
    return log_axes(figure)


def increments_against_k(summary: Summary, method: str) -> go.Figure:
    """The gain of each additional drafted token: measured, predicted, and in the bound with m fixed.

    The growth of a bound does not bound the growth of the tree, so marks may lie above that curve.
    """
    title = "tokens per target call, per drafted token"
    figure = axes("drafted tokens k", title, xaxis_type="log", yaxis_type="log")
    rows = [row | {"at": _middle(row["from"], row["to"])} for row in summary["increments"]]
    _add_strategies(figure, rows, method, positive=True)
    bounds = [row for row in summary["bounds"][method]["by_k"] if row["fixed_m"] is not None]
    steps = list(pairwise(bounds))
    changes = [(b["fixed_m"] - a["fixed_m"]) / (b["k"] - a["k"]) for a, b in steps]
    ks = [_middle(a["k"], b["k"]) for a, b in steps]
    figure.add_trace(line("growth of the bound, m fixed", BOUND, "dash", ks, _positive(changes)))
    return log_axes(figure)


def acceptance_by_index(summary: Summary) -> go.Figure:
    """The probability that the child with each index is accepted, under both methods."""
    figure = axes("child index", "probability of acceptance", yaxis_type="log")
    for method, acceptance in summary["acceptance"].items():
        name, dash = METHODS[method].name, METHODS[method].dash
        used = acceptance["by_index"]
        indices = list(range(len(used)))
        figure.add_trace(line(f"{name}, as used", colour(method), dash, indices, _positive(used), name))
        rows = [row | {"value": row["rate"]} for row in acceptance["batch"] if row["rate"]]
        look = Look(name, colour(method), METHODS[method].mark, dash)
        figure.add_trace(measured(look, _column(rows, "index"), rows, positive=True))
        if contexts := acceptance["contexts"]:
            computed = _positive(contexts["by_index"])
            indices = list(range(len(computed)))
            figure.add_trace(line(f"{name}, computed", colour(method), "dot", indices, computed, name))
    return log_axes(figure)


def gsd_minus_ersd(summary: Summary) -> go.Figure:
    """How many tokens per target call GSD yields more than ERSD, on the same prompts and seeds."""
    title = "GSD minus ERSD, tokens per target call"
    figure = axes("drafted tokens k", title, xaxis_type="log")
    for strategy in STRATEGIES:
        if rows := chosen(summary["differences"], strategy=strategy):
            figure.add_trace(measured(_topology(strategy), _column(rows, "k"), rows, lines=True))
    figure.add_hline(y=0, line={"color": BOUND, "width": 1})
    return log_axes(figure)


class Look(NamedTuple):
    """The look of a measured curve: its name, colour, mark and line style."""

    name: str
    hue: str
    mark: str
    dash: str


def _topology(name: str) -> Look:
    entry = TOPOLOGIES[name]
    return Look(entry.long_name, colour(entry.colour), entry.mark, entry.dash)


def measured(
    look: Look, x: Sequence[float], rows: Rows, positive: bool = False, lines: bool = False
) -> go.Scatter:
    """Marks with intervals. positive: leave out values of 0 or less, which a logarithmic axis can't show."""
    rows_kept = [(at, row) for at, row in zip(x, rows, strict=True) if not positive or row["value"] > 0]
    values = [row["value"] for _, row in rows_kept]
    return go.Scatter(
        name=look.name,
        legendgroup=look.name,
        x=[at for at, _ in rows_kept],
        y=values,
        mode="lines+markers" if lines else "markers",
        marker={"symbol": look.mark, "size": 9, "color": look.hue},
        line={"color": look.hue, "dash": look.dash, "width": 1.5},
        error_y=interval(look.hue)
        | {
            "array": [_beyond(row["high"], row["value"]) for _, row in rows_kept],
            "arrayminus": [_beyond(row["value"], row["low"], positive) for _, row in rows_kept],
        },
        customdata=[[row["low"], row["high"]] for _, row in rows_kept],
        hovertemplate="%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g}) at %{x:.3g}",
    )


def _beyond(high: float | None, low: float | None, positive: bool = False) -> float:
    """The length of one half of an error bar, or 0 if it is unknown.

    On a logarithmic axis the lower end stays within a power of ten of the value. Otherwise it would dominate
    the plot.
    """
    if high is None or low is None:
        return 0.0
    return high - max(low, high / 10) if positive else high - low


def _add_strategies(figure: go.Figure, rows: Rows, method: str, positive: bool = False) -> None:
    """Adds each strategy's measured and predicted values. Each row has its place on the x axis, `at`."""
    for strategy in STRATEGIES:
        if some := chosen(rows, method=method, strategy=strategy):
            look, x = _topology(strategy), _column(some, "at")
            predicted = _column(some, "prediction")
            predicted = _positive(predicted) if positive else predicted
            figure.add_trace(line(f"{look.name}, predicted", look.hue, "dot", x, predicted, look.name))
            figure.add_trace(measured(look, x, some, positive))


def _column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


def _positive(values: Sequence[float]) -> list[float | None]:
    return [value if value > 0 else None for value in values]


def _middle(a: float, b: float) -> float:
    return (a * b) ** 0.5
