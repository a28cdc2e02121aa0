"""Makes plotly figures for notebooks: acceptance and trees as the theory predicts them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from torch import Tensor

from specdec import theory, topology
from specdec.figures import drafts, labs
from specdec.figures.looks import axes, colour, hollow, whole
from specdec.figures.topologies import FIXED
from specdec.methods import METHODS
from specdec.optimal import checked_acceptance, most_expected_tokens
from specdec.theory.divergences import checked_pair

Rates = list[float] | tuple[float, ...] | np.ndarray | Tensor
MOST = 384
"""The number of drafted tokens of a figure's largest tree, as in the paper."""


def tokens_by_topology(acceptance: Rates, most: int) -> dict[str, list[float]]:
    """Expected tokens per target call of each fixed topology with 0, 1, ..., `most` drafted tokens.

    acceptance: by child index, as `measure_acceptance` returns it. ValueError if it is not acceptance by
    index.
    """
    rates = checked_acceptance(acceptance)
    # These trees grow in level order, so the tree of k tokens is the first k nodes of the largest tree.
    largest = {name: topology.named(name, most) for name in FIXED if name != "optimal"}
    grown = {name: np.cumsum(theory.node_acceptance(rates, tree)).tolist() for name, tree in largest.items()}
    return {"optimal": most_expected_tokens(rates, most).tolist()} | grown


def tokens_against_k(acceptance: Rates, most: int = 64, vocab_size: int | None = None) -> go.Figure:
    """Expected tokens per target call against k, as in Figure 3 of the paper.

    The curves are sequence, batch, SpecInfer's tree, the optimal tree, and upper bounds for all trees:
    Lemma 4.2, and Theorem 4.1 if vocab_size is given. ValueError if `acceptance` is not an acceptance
    by index, or if `most` is not from 2 to 384.
    """
    if not 2 <= most <= MOST:
        raise ValueError(f"most = {most} is not from 2 to {MOST}")
    rates = checked_acceptance(acceptance)
    ks = [*range(1, most + 1)]
    tokens = tokens_by_topology(rates, most)
    values = {name: numbers[1:] for name, numbers in tokens.items()} | {
        "Lemma 4.2: upper bound": [_finite(theory.lemma_bound(rates, k)) for k in ks],
    }
    if vocab_size is not None:
        bounds = [_finite(theory.tunstall_bound(rates, vocab_size, k)) for k in ks]
        values["Theorem 4.1: upper bound"] = bounds
    figure = labs.tokens_against_k()
    traces = [trace for trace in figure.data if (trace.meta or trace.name) in values]
    for trace in traces:
        trace.update(x=ks, y=values[trace.meta or trace.name])
    figure.data = traces
    return whole(figure)


def acceptance_by_index(rates: Mapping[str, Rates]) -> go.Figure:
    """Probability that the child with each index is the accepted one, as a bar for each method.

    rates: method -> acceptance by index, from `measure_acceptance` for a pair, or from
    `theory.gsd_acceptance_by_index` for two distributions. ValueError for an unknown method or invalid rates.
    """
    figure = axes("child index", "accepted", 320, barmode="group", bargap=0.3, xaxis_dtick=1)
    figure.update_layout(yaxis_tickformat=".0%", yaxis_rangemode="tozero")
    for method, by_index in rates.items():
        if method not in METHODS:
            raise ValueError(f"rates: {method!r:.60} is not one of {', '.join(METHODS)}")
        values = checked_acceptance(by_index).tolist()
        marker = hollow(colour(method)) if method == "ersd" else {"color": colour(method)}
        figure.add_trace(go.Bar(name=METHODS[method].name, x=[*range(len(values))], y=values, marker=marker))
    return whole(figure)


def acceptance_by_drafts(p: Rates, q: Rates, most: int = drafts.MOST) -> go.Figure:
    """Exact probability that one of n drafted alternatives is accepted, for n = 1 to `most`, by each rule.

    p, q: the target's and the draft's probabilities. Two more curves show the highest acceptance that any
    rule can reach: with drafts without replacement, and with independent drafts. ValueError if p or q is not
    a distribution, or if `most` is not from 1 to 8.
    """
    if not 1 <= most <= drafts.MOST:
        raise ValueError(f"most = {most} is not from 1 to {drafts.MOST}")
    accepted = drafts.accepted(*checked_pair(p, q))
    figure = drafts.figure()
    for trace, name in zip(figure.data, (*drafts.OPTIMA, *drafts.RULES), strict=True):
        trace.update(x=[*range(1, most + 1)], y=accepted[name][:most])
    return whole(figure)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
