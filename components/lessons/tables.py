"""Tables that several lessons share, and the notation of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
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


def listed(values: Sequence[float]) -> str:
    """Numbers in the notation of the page's address."""
    return ",".join(f"{value:g}" for value in values)


def words(shares: Sequence[float]) -> str:
    """Probabilities in words, such as "10%, 50% and 40%"."""
    *first, last = [f"{value:.0%}" for value in shares]
    return f"{', '.join(first)} and {last}"


def distributions(p: Distribution, q: Distribution) -> Facts:
    """The probabilities of target and draft: as numbers, as text for the address, and in words."""
    return {
        "p": p,
        "q": q,
        "p_list": listed(p),
        "q_list": listed(q),
        "p_words": words(p),
        "q_words": words(q),
    }


def residual_of(p: Distribution, q: Distribution) -> list[float]:
    """max(p - q, 0), scaled to add up to 1."""
    return algorithms.residual(np.array(p), np.array(q)).tolist()


def rejecting() -> Facts:
    """A set-up of the race laboratory in which token a is drafted and GSD rejects it."""
    return distributions(P, Q) | {"e_list": listed(DRAFTS_A), "lab_u": f"{REJECTING_U:g}"}


@cache
def measured() -> tuple[float, ...]:
    """R of the embedded pair under ERSD with its tail, as in the tree laboratory."""
    preset = next(preset for preset in tree_lab.presets() if preset.id == "ersd")
    return tree_lab.acceptance(preset)


def recorded_run(name: str) -> Generation:
    """The recorded run of this name in `assets/traces`."""
    return Generation.from_json((traces.FOLDER / f"{name}.json").read_text())
