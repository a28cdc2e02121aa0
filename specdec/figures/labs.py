"""The plotly figures of the page's laboratories. This file has their traces and axes; the page's scripts fill
in the numbers (see `looks`)."""

from __future__ import annotations

import plotly.graph_objects as go

from specdec.figures.looks import BOUND, INK, axes, colour, hollow, interval, line, log_axes, marks
from specdec.figures.topologies import FIXED, TOPOLOGIES
from specdec.methods import METHODS

_RACED = ("ersd", "gsd")


def convergence() -> go.Figure:
    """Acceptance of the first drafted token against the number of races, with exact values and bounds."""
    figure = axes("races", "first draft accepted", 300, xaxis_type="log", yaxis_tickformat=".0%")
    looks = [(METHODS[name].name, colour(name), METHODS[name].mark) for name in _RACED]
    for name, hue, _ in looks:
        band = {"mode": "none", "fill": "toself", "fillcolor": hue, "opacity": 0.22, "hoverinfo": "skip"}
        figure.add_trace(go.Scatter(legendgroup=name, **band))
    for name, hue, _ in looks:
        figure.add_trace(line(f"{name}, exact", hue, "dash", group=name, width=1.5))
    figure.add_trace(line("(1 − TV) / (1 + TV): lower bound", BOUND, "longdash"))
    figure.add_trace(line("harmonic mean: lower bound", BOUND, "dot"))
    for name, hue, _ in looks:
        figure.add_trace(line(f"{name}, measured", hue, "solid", group=name, width=3))
    # the ends of the measured curves are marked, with another shape for each method
    return figure.add_traces([marks(name, hue, symbol) for name, hue, symbol in looks])


def by_index() -> go.Figure:
    """Acceptance by child index: bars with intervals for measured values, and marks for exact values."""
    figure = axes("child index", "accepted", 300, barmode="group", bargap=0.3)
    figure.update_layout(xaxis_dtick=1, yaxis_tickformat=".0%", yaxis_rangemode="tozero")
    for name in _RACED:
        marker = hollow(colour(name)) if name == "ersd" else {"color": colour(name)}
        measured = f"{METHODS[name].name}, measured"
        bar = go.Bar(name=measured, legendgroup=measured, marker=marker, hoverinfo="text")
        figure.add_trace(bar.update(error_y=interval(INK)))
    exact = [marks(f"{METHODS[name].name}, exact", colour(name), METHODS[name].mark) for name in _RACED]
    return figure.add_traces(exact)


def tokens_against_k() -> go.Figure:
    """Expected tokens per target call against k: the fixed topologies, two bounds, and the visitor's k."""
    title = "tokens per target call"
    figure = axes("drafted tokens k", title, 360, xaxis_type="log", yaxis_rangemode="tozero")
    for name in FIXED:
        entry = TOPOLOGIES[name]
        figure.add_trace(line(entry.long_name, colour(entry.colour), entry.dash, width=2.5).update(meta=name))
    figure.add_trace(line("Lemma 4.2: upper bound", BOUND, "solid", width=1.5))
    figure.add_trace(line("Theorem 4.1: upper bound", BOUND, "longdash", width=1.5))
    figure.add_trace(line("k", BOUND, "dot", width=1).update(legendgroup=None))
    best = TOPOLOGIES["optimal"]
    at_k = marks(f"{best.long_name} at k", colour(best.colour), best.mark, group=best.long_name)
    return log_axes(figure.add_trace(at_k))


def payoff() -> go.Figure:
    """Tokens per call and speed-up against k. Marks show plain decoding, the best k, and the k from which
    drafting gains nothing."""
    figure = axes("drafted tokens k", "times plain decoding", 300, yaxis_rangemode="tozero")
    figure.add_trace(line("tokens per target call", colour("draft"), "dash", width=2.5))
    figure.add_trace(line("speed-up", colour("target"), "solid", width=3))
    figure.add_trace(line("plain decoding", BOUND, "dot", width=1.5))
    figure.add_trace(marks("best k", colour("target"), "star").update(marker={"size": 14}))
    return figure.add_trace(marks("gain ends", colour("rejected"), "x"))
