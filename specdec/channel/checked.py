"""Checks of the arguments of the codecs in `specdec.channel`."""

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
"""The largest number of indices in a distribution, which limits memory and time."""


def check_bits(bits: str) -> None:
    """Raise ValueError unless `bits` is a string of the characters 0 and 1."""
    if not isinstance(bits, str) or bits.strip("01"):
        raise ValueError(f"bits = {bits!r:.40} is not a text of the characters 0 and 1")


def one_distribution(name: str, value: Distribution) -> np.ndarray:
    """Check a single distribution and return it as float64 [n]. A ValueError names the argument."""
    probs = checked_distribution(name, value)
    if probs.dim() != 1:
        raise ValueError(f"{name} has shape {tuple(probs.shape)}; one distribution [n] is needed")
    return probs.cpu().numpy()


def checked_index(index: int) -> int:
    """Check that an index is an integer from 0 to 2³² - 1, and return it; else ValueError."""
    return whole("index", index, 0, (1 << 32) - 1)


def checked_indices(indices: Iterable[int]) -> list[int]:
    """Check a list of indices and return it. ValueError if it is not a list, or has an invalid index."""
    return [checked_index(index) for index in integers("indices", indices)]


def checked_key(seed: int, position: int) -> tuple[int, int]:
    """The seed and the position that key a message's noise; ValueError unless both are 64-bit integers."""
    return checked_seed(seed), whole("position", position, 0, (1 << 64) - 1)


def covered_pair(p: Distribution, q: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Check two distributions and return them as float64 [n].

    ValueError if one is not a distribution, or if q is 0 at a token where p is not.
    """
    p, q = (x.cpu().numpy() for x in checked_pair(one_distribution("p", p), one_distribution("q", q)))
    if ((p > 0) & (q == 0)).any():
        token = int(np.flatnonzero((p > 0) & (q == 0))[0])
        raise ValueError(f"q[{token}] is 0 where p is {p[token]}: this token would never be proposed")
    return p, q
