"""Acceptance of one position with several drafts: by each rule, and the highest that any rule can reach."""

from __future__ import annotations

import plotly.graph_objects as go
from torch import Tensor

from specdec import theory
from specdec.figures.looks import BOUND, axes, colour, line
from specdec.methods import DRAFTING, METHODS

MOST = 8
"""The largest number of drafts for which acceptance is computed."""
RULES = tuple(
    name
    for name in DRAFTING
    if any(hasattr(theory, f"{name}_{what}") for what in ("acceptance", "acceptance_by_index"))
)
"""The methods whose acceptance with several drafts `specdec.theory` computes."""
OPTIMA = {
    "optimum": ("optimum without replacement", "solid"),
    "drawn": ("optimum of independent draws", "dot"),
}
"""The highest acceptance that any rule can reach: name in the results -> (name in the legend, line style).
The first optimum bounds ERSD and GSD; the second bounds SpecInfer and SpecTr."""


def accepted(p: Tensor, q: Tensor) -> dict[str, list[float]]:
    """For each name of `RULES` and `OPTIMA`, the probabilities that one of n drafts is accepted, for n = 1 to
    `MOST`. p, q: the target's and the draft's distribution.
    """
    counts = range(1, MOST + 1)
    return {name: _accepted_by(name, p, q) for name in RULES} | {
        "optimum": [float(theory.optimal_acceptance(p, q, n)) for n in counts],
        "drawn": [float(theory.optimal_acceptance(p, q, n, replacement=True)) for n in counts],
    }


def _accepted_by(name: str, p: Tensor, q: Tensor) -> list[float]:
    by_index = getattr(theory, f"{name}_acceptance_by_index", None)
    if by_index is not None:
        return _with_more(by_index(p, q, len(p)))
    acceptance = getattr(theory, f"{name}_acceptance")
    return [float(acceptance(p, q, n)) for n in range(1, MOST + 1)]


def _with_more(by_index: Tensor) -> list[float]:
    """The acceptance of 1 to `MOST` drafts: sums of the acceptance by index.

    With more drafts than tokens in the vocabulary, the sum stays the same.
    """
    sums = by_index.cumsum(-1).clamp(max=1).tolist()
    return [sums[min(n, len(sums) - 1)] for n in range(MOST)]


def figure() -> go.Figure:
    """Acceptance against the number of drafts: a curve for each rule, and the two optima."""
    figure = axes("drafts", "accepted", 300, xaxis_dtick=1, yaxis_tickformat=".0%")
    for name, dash in OPTIMA.values():
        figure.add_trace(line(name, BOUND, dash, width=3))
    for name in RULES:
        look = METHODS[name]
        marker = {"symbol": look.mark, "size": 9, "color": colour(name)}
        curve = line(look.name, colour(name), look.dash)
        figure.add_trace(curve.update(mode="lines+markers", marker=marker, cliponaxis=False))
    return figure
