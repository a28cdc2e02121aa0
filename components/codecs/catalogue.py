"""The codecs on the page: their names, the related decoding methods, and upper bounds of the entropy of the
indices that they send.

The module also converts the weights that visitors send to distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from specdec import theory

NAMES = {"greedy_rejection": "greedy rejection", "poisson_functional": "Poisson functional"}
RELATIVES = {"greedy_rejection": "GSD", "poisson_functional": "ERSD"}
BOUNDS: dict[str, tuple[Callable[[float], float], float, str]] = {
    "greedy_rejection": (
        theory.greedy_rejection_entropy_bound,
        theory.GREEDY_REJECTION_CONSTANT,
        "the paper's Equation 7, with O(1) taken as 1 + log₂(e + 1) from Goc and Flamich, 2024",
    ),
    "poisson_functional": (
        theory.pfr_entropy_bound,
        theory.PFR_CONSTANT,
        "the paper's Equation 8, with the constant of Li and El Gamal, 2018",
    ),
}

Weight = Annotated[float, Field(ge=0, lt=1e9)]


def shares(name: str, weights: Sequence[float]) -> list[float]:
    """The weights scaled to sum to 1. ValueError if all are 0."""
    total = math.fsum(weights)
    if not total:
        raise ValueError(f"all weights of {name} are 0; at least one must be above 0")
    return [weight / total for weight in weights]
