"""Figures of the codec laboratory: pure functions that turn numbers into plotly figures."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specdec.figures.looks import BOUND, INK, axes, hollow, line


def bits_so_far(
    sent: Sequence[float], ideal: Sequence[float], kl: Sequence[float], bound: Sequence[float]
) -> go.Figure:
    """Four curves over the first n tokens: the bits that were sent, the bits of an ideal code for a Zipf
    distribution, D_KL, and the upper bound of the index's entropy."""
    count = list(range(1, len(sent) + 1))
    curves = [
        line("upper bound of H[index]", BOUND, "dash", count, bound),
        line("sent, Elias γ", INK, "solid", count, sent),
        line("ideal, Zipf's law", INK, "dot", count, ideal),
        line("D_KL[P‖Q]", BOUND, "solid", count, kl),
    ]
    return axes("tokens sent", "bits so far").add_traces(curves)


def index_distributions(with_replacement: Sequence[float], without: Sequence[float]) -> go.Figure:
    """The probability of each index, with proposals drawn with and without replacement."""
    figure = axes("index sent", "probability", 320, barmode="group", bargap=0.25, xaxis_dtick=1)
    for name, shown, marker in (
        ("with replacement", with_replacement, {"color": BOUND}),
        ("without replacement", without, hollow(INK)),
    ):
        hover = "%{y:.3g} at index %{x}"
        bars = go.Bar(
            name=name, legendgroup=name, x=list(range(len(shown))), y=list(shown), hovertemplate=hover
        )
        figure.add_trace(bars.update(marker=marker))
    return figure


def tunstall_rates(ks: Sequence[int], rates: Sequence[float], entropy: float, k: int) -> go.Figure:
    """Bits per symbol of the codes with each k, above the source's entropy. The chosen code is marked."""
    figure = axes("inner nodes k, without the root", "bits per symbol", 320)
    figure.add_trace(line("rate", INK, "solid", ks, rates))
    figure.add_trace(line("entropy", BOUND, "dash", [ks[0], ks[-1]], [entropy, entropy]))
    chosen = go.Scatter(name="this code", legendgroup="this code", x=[k], y=[rates[list(ks).index(k)]])
    return figure.add_trace(
        chosen.update(mode="markers", marker={"symbol": "star", "size": 13, "color": INK})
    )
