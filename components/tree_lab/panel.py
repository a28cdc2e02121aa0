"""A laboratory of draft trees: the visitor sets the acceptance by child index and sees the best tree for it.

The trees and their values come from `specdec.optimal` and `specdec.theory`. If each best tree contains the
smaller ones, one answer serves all k, and `assets/tree_lab/panel.js` draws its parts.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from components.page import assets, frame
from components.page.questions import Answer, Question, answers
from specdec import optimal, theory
from specdec.figures import labs, looks
from specdec.figures.theory import MOST, tokens_by_topology
from specdec.figures.topologies import FIXED, TOPOLOGIES

START_K = 12
INDICES = 8
"""The number of child indices that have a slider. Each later rate is a fixed part of the rate before it."""
VOCABULARY = 2048
"""|Ω| of Theorem 4.1: the number of tokens in the embedded pair's vocabulary."""
_TAIL, _SMALLEST = 24, 1e-7
"""The largest number of child indices without a slider, and the rate below which further indices are left
out."""
_MOST_INDICES = 64
_GRID = sorted({round(MOST ** (i / 39)) for i in range(40)})
_MEASURED = assets.ASSETS / "stories" / "measurements.json"
ALGORITHMS = {
    "greedy": "A queue holds the nodes that could be added. The node with the highest acceptance joins the "
    "tree, and its first child and next sibling join the queue. Here R never increases with the child index, "
    "so this finds the best trees, and each contains all smaller ones.",
    "dynamic program": "Here R increases at some child index, so the queue of Algorithm 3 could miss the "
    "best tree. A dynamic program finds the best trees instead. The best tree of k tokens need not contain "
    "the best tree of fewer tokens.",
}


Preset = dict[str, Any]
"""An example of acceptance rates. rates: R(0) to R(7). tail: the ratio of each later rate to the rate before
it. id: its name in the page's address, which never changes."""


def presets() -> dict[str, Preset]:
    """The examples by id: the acceptance of the embedded pair as measured, then invented rates that each show
    one effect."""
    invented = json.loads(Path(__file__).with_name("presets.json").read_text("utf-8"))
    padding = [0.0] * INDICES
    examples = [{"tail": 0.5} | each | {"rates": [*each["rates"], *padding][:INDICES]} for each in invented]
    return {each["id"]: each for each in [*_measured(), *examples]}


def _measured() -> list[Preset]:
    """Two examples: the embedded pair's acceptance by child index under ERSD and under GSD, as measured."""
    acceptance = json.loads(_MEASURED.read_bytes())["acceptance"]
    vectors = {method: acceptance["by_index"][method][:INDICES] for method in ("ersd", "gsd")}
    positions = acceptance["by_index_positions"]
    note = (
        f"The mean R over {positions:,} positions of held-out stories. Experiments, under Paper, has other "
        f"numbers, because it counts R in texts that the pair wrote. Beyond index 7 each R is a fixed share "
        f"of the R before it."
    )
    return [
        {
            "id": method,
            "name": f"Embedded pair, {method.upper()}",
            "note": note,
            "rates": rates,
            "tail": round(rates[-1] / rates[-2], 2),
        }
        for method, rates in vectors.items()
    ]


def acceptance(preset: Preset) -> tuple[float, ...]:
    """R of an example, computed as in the browser: the rates of the sliders, then further rates until they
    are negligible."""
    later = (preset["rates"][-1] * preset["tail"] ** i for i in range(1, _TAIL + 1))
    return (*preset["rates"], *(rate for rate in later if rate > _SMALLEST))


class Rates(Question):
    """A question that gives R, the acceptance rates by child index."""

    acceptance: Annotated[list[float], Field(min_length=1, max_length=_MOST_INDICES)]


class Size(Rates):
    """A question about the best tree of k drafted tokens, for acceptance rates R by child index."""

    k: Annotated[int, Field(ge=1, le=MOST)]


@answers
def grown(rates: Rates) -> Answer:
    """The best trees of 0 to 384 tokens, with their expected tokens and bounds.

    order: rows [parent, child index] of the nodes in the order in which Algorithm 3 adds them; row 0 is the
    root. Null if R increases somewhere; `best_tree` then gives the tree of one k. tokens: expected tokens by
    topology, for each k. bounds: rows [k, Lemma 4.2, Theorem 4.1], null if infinite.
    """
    vector = optimal.checked_acceptance(rates.acceptance)
    algorithm = optimal.chosen_algorithm(vector, MOST)
    return {
        "algorithm": algorithm,
        "how": ALGORITHMS[algorithm],
        "entropy": theory.entropy_of_rates(vector),
        "order": list(zip(*optimal.pop_order(vector, MOST))) if algorithm == "greedy" else None,
        "tokens": tokens_by_topology(vector, MOST),
        "bounds": [[k, *_bounds(vector, k)] for k in _GRID],
    }


@answers
def best_tree(size: Size) -> Answer:
    """The best tree of k tokens, as rows of [parent, child index]."""
    tree = optimal.optimal_topology(size.acceptance, size.k)
    return {"rows": list(zip(tree.parents, tree.child_indices))}


def _bounds(vector: np.ndarray, k: int) -> list[float | None]:
    bounds = theory.lemma_bound(vector, k), theory.tunstall_bound(vector, VOCABULARY, k)
    return [bound if math.isfinite(bound) else None for bound in bounds]


def panel() -> frame.Part:
    """The tree laboratory: one element that `assets/tree_lab/panel.js` fills."""
    return frame.panel(
        "tree_lab",
        frame.template(
            "tree_lab/panel",
            most=MOST,
            vocabulary=VOCABULARY,
            trees=[TOPOLOGIES[name].long_name for name in FIXED],
        ),
        functions=[grown, best_tree],
        presets=[*presets().values()],
        k=START_K,
        most=MOST,
        curve=looks.skeleton(labs.tokens_against_k()),
        plotly=assets.file_url(assets.PLOTLY),
    )
