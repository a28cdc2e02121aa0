"""What users hand over: numbers of Python, numpy and torch, turned into Python's."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any


def integer(value: Any) -> int | None:
    """The value as int; None where it is no integer (a bool is none)."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as int; ValueError names it where it is no integer from `least` to `most`."""
    number = integer(value)
    if number is None or number < least or (most is not None and number > most):
        end = "up" if most is None else f"to {most:,}"
        raise ValueError(f"{name} = {value!r} is not an integer from {least} {end}")
    return number


def real(value: Any) -> float | None:
    """The value as float; None where it is no finite number (a bool is none).

    Arrays and tensors of no dimension are numbers too.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return float(value)
