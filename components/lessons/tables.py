"""Distributions and set-ups that several lessons share, and the functions that write their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from components.decode import traces
from components.tree_lab import panel as tree_lab
from specdec import Generation, algorithms

Facts = dict[str, Any]
Distribution = Sequence[float]

P, Q = (0.1, 0.4, 0.5), (0.5, 0.3, 0.2)
"""The distributions of target and draft over a, b and c. They differ enough to make every effect large."""
DRAFTS_A = (0.2, 0.9, 0.9)
"""Exponential random numbers with which a draft from `Q` proposes the token a."""
REJECTING_U = 0.9


def written(lesson: Callable[[], Facts]) -> Facts:
    """The lesson's facts, and two texts for each tuple of numbers: in the notation of the page's address, and
    in words such as "10%, 50% and 40%". Their names end in `_list` and `_words`."""
    facts, texts = lesson(), Facts()
    for name, values in facts.items():
        if isinstance(values, tuple):
            *first, last = [f"{value:.0%}" for value in values]
            texts[f"{name}_list"] = ",".join(f"{value:g}" for value in values)
            texts[f"{name}_words"] = f"{', '.join(first)} and {last}"
    return facts | texts


def residual_of(p: Distribution, q: Distribution) -> list[float]:
    """max(p - q, 0), scaled to add up to 1."""
    return algorithms.residual(np.array(p), np.array(q)).tolist()


def rejecting() -> Facts:
    """A set-up of the race laboratory in which token a is drafted and GSD rejects it."""
    return {"p": P, "q": Q, "e": DRAFTS_A, "lab_u": f"{REJECTING_U:g}"}


@cache
def measured() -> tuple[float, ...]:
    """ERSD's acceptance R by child index, measured with the embedded pair. R at the later indices is
    extrapolated, as in the tree laboratory."""
    return tree_lab.acceptance(tree_lab.presets()["ersd"])


def recorded_run(name: str) -> Generation:
    """The recorded run of this name in `assets/traces`."""
    return Generation.from_json((traces.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
