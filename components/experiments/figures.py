"""Functions that the figures and tables of all experiments share.

Measured values have 95% intervals, and marks and line styles distinguish the curves without colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from specdec import phrases
from specdec.figures.looks import interval
from specdec.phrases import number

Rows = Sequence[Mapping[str, Any]]


class Look(NamedTuple):
    """The look of a measured curve: its name, colour, mark and line style."""

    name: str
    hue: str
    mark: str
    dash: str


def measured(
    look: Look, x: Sequence[float], rows: Rows, positive: bool = False, lines: bool = False
) -> go.Scatter:
    """Marks with intervals. positive: leave out values of 0 or less, which a logarithmic axis can't show.
    lines: whether lines join the marks."""
    rows_kept = [(place, row) for place, row in zip(x, rows, strict=True) if not positive or row["value"] > 0]
    values = [row["value"] for _, row in rows_kept]
    return go.Scatter(
        name=look.name,
        legendgroup=look.name,
        x=[place for place, _ in rows_kept],
        y=values,
        mode="lines+markers" if lines else "markers",
        marker={"symbol": look.mark, "size": 9, "color": look.hue},
        line={"color": look.hue, "dash": look.dash, "width": 1.5},
        error_y=interval(look.hue)
        | {
            "array": [_half_of_bar(row["high"], row["value"]) for _, row in rows_kept],
            "arrayminus": [_half_of_bar(row["value"], row["low"], positive) for _, row in rows_kept],
        },
        customdata=[[row["low"], row["high"]] for _, row in rows_kept],
        hovertemplate="%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g}) at %{x:.3g}",
    )


def _half_of_bar(high: float | None, low: float | None, positive: bool = False) -> float:
    """The length of one half of an error bar, from low to high; 0 if one of them is unknown.

    positive: on a logarithmic axis low is raised to a tenth of high, because a longer bar would dominate the
    plot.
    """
    if high is None or low is None:
        return 0.0
    return high - max(low, high / 10) if positive else high - low


def spread(row: Mapping[str, Any]) -> list[str]:
    """Two cells of a table: a value and its interval."""
    return [number(row["value"]), phrases.interval(row)]


def chosen(rows: Rows, **fields: Any) -> list[Mapping[str, Any]]:
    """The rows of a summary whose entries have the values in `fields`."""
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]
