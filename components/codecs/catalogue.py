"""The codecs on the page: names, related decoding methods, and bounds of the entropy of their indices."""

from __future__ import annotations

from collections.abc import Callable

from specdec import theory

NAMES = {"greedy_rejection": "greedy rejection", "poisson_functional": "Poisson functional"}
RELATIVES = {"greedy_rejection": "GSD", "poisson_functional": "ERSD"}
BOUNDS: dict[str, tuple[Callable[[float], float], float, str]] = {
    "greedy_rejection": (
        theory.greedy_rejection_entropy_bound,
        theory.GREEDY_REJECTION_CONSTANT,
        "Equation 7, whose O(1) is taken as 1 + log₂(e + 1) from Goc and Flamich, 2024",
    ),
    "poisson_functional": (
        theory.pfr_entropy_bound,
        theory.PFR_CONSTANT,
        "Equation 8, with the constant of Li and El Gamal, 2018",
    ),
}
