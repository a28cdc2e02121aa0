"""What codecs are given, checked."""

from __future__ import annotations

import numpy as np

from specdec.theory import Distribution
from specdec.theory.divergences import checked_distribution


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
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or not 0 <= index < 1 << 32:
        raise ValueError(f"index = {index!r} is not an integer from 0 to 2**32 - 1")
    return int(index)
