"""What codecs are given, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np

from specdec.checks import integers, whole
from specdec.race import checked_seed
from specdec.theory import Distribution
from specdec.theory.divergences import checked_distribution, checked_pair

Method = Literal["greedy_rejection", "poisson_functional"]
METHODS: tuple[Method, ...] = get_args(Method)

MOST_COUNT = 10_000_000
"""Most messages of a transmission, and most indices of a law: more would take memory and time without end."""


def check_bits(bits: str) -> None:
    """ValueError where these are no bits, a text of 0 and 1."""
    if not isinstance(bits, str) or bits.strip("01"):
        raise ValueError(f"bits = {bits!r:.40} are not a text of 0 and 1")


def checked_law(name: str, value: Distribution) -> np.ndarray:
    """The value as one distribution, float64 [n]; ValueError names it where it is none."""
    probs = checked_distribution(name, value)
    if probs.dim() != 1:
        raise ValueError(f"{name} has shape {tuple(probs.shape)}; one distribution [n] is needed")
    return probs.cpu().numpy()


def checked_index(index: int) -> int:
    """The value as an index; ValueError where it is no whole number from 0 up."""
    return whole("index", index, 0, (1 << 32) - 1)


def checked_indices(indices: Iterable[int]) -> list[int]:
    """The values as a list of indices; ValueError where one is none, or they are no list."""
    return [checked_index(index) for index in integers("indices", indices)]


def checked_key(seed: int, position: int) -> tuple[int, int]:
    """What messages are keyed by: integers of 64 bits; ValueError names what is none."""
    return checked_seed(seed), whole("position", position, 0, (1 << 64) - 1)


def covered_pair(p: Distribution, q: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Both as distributions, float64 [n]; ValueError also where p has support that q lacks."""
    p, q = (x.cpu().numpy() for x in checked_pair(checked_law("p", p), checked_law("q", q)))
    if ((p > 0) & (q == 0)).any():
        token = int(np.flatnonzero((p > 0) & (q == 0))[0])
        raise ValueError(f"q[{token}] is 0 where p is {p[token]}: no proposal can ever be that sample")
    return p, q
