"""Figures of the codec laboratory: pure functions, numbers -> plotly figure, like the experiments'."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from components.experiments.figures import INK, axes, line

WITH, WITHOUT = "#3D8BD9", "#C77F00"
_SENT, _IDEAL = "#B07CC6", "#3A9A3A"


def bits_so_far(
    sent: Sequence[float], ideal: Sequence[float], kl: Sequence[float], bound: Sequence[float]
) -> go.Figure:
    """Bits of the first n tokens: sent, ideal by Zipf's law, D_KL, and the bound of the index's entropy."""
    figure = axes("tokens sent", "bits so far")
    count = list(range(1, len(sent) + 1))
    figure.add_trace(line("upper bound of H[index]", count, bound, INK, "dash"))
    figure.add_trace(line("sent, Elias γ", count, sent, _SENT, "solid"))
    figure.add_trace(line("ideal, Zipf's law", count, ideal, _IDEAL, "dot"))
    figure.add_trace(line("D_KL[P‖Q]", count, kl, WITH, "solid"))
    return figure


def index_laws(with_replacement: Sequence[float], without: Sequence[float]) -> go.Figure:
    """Probability of each index, proposals drawn with replacement beside without."""
    figure = axes("index sent", "probability", barmode="group", bargap=0.25, height=320)
    figure.update_xaxes(dtick=1)
    hatched = {"shape": "/", "size": 5, "solidity": 0.25, "fgcolor": "#1F2937", "bgcolor": WITHOUT}
    for name, law, marker in (
        ("with replacement", with_replacement, {"color": WITH}),
        ("without replacement", without, {"color": WITHOUT, "pattern": hatched}),
    ):
        hover = "%{y:.3g} at index %{x}"
        bars = go.Bar(name=name, legendgroup=name, x=list(range(len(law))), y=list(law), hovertemplate=hover)
        figure.add_trace(bars.update(marker=marker))
    return figure


def tunstall_rates(ks: Sequence[int], rates: Sequence[float], entropy: float, k: int) -> go.Figure:
    """Bits a symbol of the codes with each k, the chosen one marked, above the source's entropy."""
    figure = axes("inner nodes k beside the root", "bits a symbol", height=320)
    figure.add_trace(line("rate", ks, rates, WITH, "solid"))
    figure.add_trace(line("entropy", [ks[0], ks[-1]], [entropy, entropy], INK, "dash"))
    chosen = go.Scatter(name="this code", legendgroup="this code", x=[k], y=[rates[list(ks).index(k)]])
    figure.add_trace(chosen.update(mode="markers", marker={"symbol": "star", "size": 13, "color": WITHOUT}))
    return figure
