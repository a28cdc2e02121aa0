"""Computes with which probabilities a codec sends each index, for proposals drawn with and without
replacement."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import plotly.graph_objects as go
from pydantic import Field

from components.codecs.catalogue import BOUNDS, NAMES, Weight, shares
from components.page.plots import table, view
from components.page.questions import Answer, Question, answers
from specdec import channel
from specdec.figures.looks import BOUND, INK, axes, hollow

MOST_TOKENS = 20
_SHOWN = 12
"""The largest number of indices that are shown."""
_COUNTED = 64
"""The number of indices whose probabilities are computed one by one. A formula gives the contribution of all
later indices to the entropies."""

_Weights = Annotated[list[Weight], Field(min_length=2, max_length=MOST_TOKENS)]


class Distributions(Question):
    """A question about one codec: its name, and the weights of the tokens under P and under Q."""

    method: channel.Method
    p: _Weights
    q: _Weights


@answers
def distributions(question: Distributions) -> Answer:
    """Compute the probability of each index, with proposals drawn with and without replacement."""
    method, p, q = question.method, shares("P", question.p), shares("Q", question.q)
    if len(p) != len(q):
        raise ValueError(f"P has {len(p)} tokens and Q has {len(q)}; give both the same number")
    indices = channel.index_distributions(p, q, method, _COUNTED)
    bound, constant, source = BOUNDS[method]
    names = ("with replacement", "without replacement")
    laws = indices.with_replacement, indices.without_replacement
    size = min(_SHOWN, max(map(len, laws)))
    columns = [np.pad(law[:size], (0, max(0, size - len(law)))).tolist() for law in laws]
    rows = [[str(i), f"{a:.4f}", f"{b:.4f}"] for i, (a, b) in enumerate(zip(*columns, strict=True))]
    figure = axes("index sent", "probability", 320, barmode="group", bargap=0.25, xaxis_dtick=1)
    for name, law, marker in zip(names, columns, ({"color": BOUND}, hollow(INK)), strict=True):
        x, hover = list(range(len(law))), "%{y:.3g} at index %{x}"
        bars = go.Bar(name=name, legendgroup=name, x=x, y=law, hovertemplate=hover)
        figure.add_trace(bars.update(marker=marker))
    return {
        "p": p,
        "q": q,
        "below": indices.entropy_without < indices.kl - 1e-9,
        "plot": view(
            f"The index's distribution, {NAMES[method]}",
            "Paper: Section 4, Equations 6 to 8; Section 2 for drafts without replacement",
            _about_entropies(indices, method, len(p)),
            f"Upper bound of H with replacement: {bound(indices.kl):.2f} bits = D_KL + log₂(D_KL + 1) + "
            f"{constant:.3g}, {source}.",
            figure,
            table("Probability of each index", ["index", *names], rows),
        ),
    }


def _about_entropies(laws: channel.IndexDistributions, method: str, tokens: int) -> str:
    drawing, counting = _REPLACEMENT[method]
    lead = (
        f"D_KL[P‖Q] = {laws.kl:.2f} bits. With replacement, {drawing}, H[index] = {laws.entropy_with:.2f} "
        f"bits, never below D_KL. Without replacement, {counting}, H[R] = {laws.entropy_without:.2f} bits"
    )
    if laws.entropy_without >= laws.kl - 1e-9:
        return f"{lead}; here it is not below D_KL either."
    return (
        f"{lead}, which is below D_KL. This contradicts no theorem: D_KL ≤ H holds for independent "
        f"proposals. Without replacement no token is counted twice, so there are only {tokens} indices and "
        f"H ≤ log₂ {tokens} = {math.log2(tokens):.2f} bits, however far Q is from P."
    )


_REPLACEMENT = {
    "greedy_rejection": ("as greedy rejection draws its proposals", "as GSD drafts its children"),
    "poisson_functional": (
        "which counts every point of the Poisson process",
        "which counts only points with a new token, like ERSD's children and the index above",
    ),
}
"""For each codec, two clauses of the sentence in `_about_entropies`: what it means to draw proposals with
replacement, and without."""
