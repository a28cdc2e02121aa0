"""What users hand over: numbers of Python, numpy and torch turned into Python's, pairs that can't draft."""

from __future__ import annotations

import math
import numbers
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec.pair import ModelPair


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
    """The value as float; None where it is no finite number (a bool is none)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return float(value)


def check_drafts(pair: ModelPair, method: str) -> None:
    """ValueError where this pair can't decode speculatively."""
    if pair.draft is None:
        raise ValueError(f"method = {method!r} needs a draft model, and this pair has none; use method 'ar'")
    for model in (pair.target, pair.draft):
        if model.capability == "ar":
            raise ValueError(f"method = {method!r}: {model.name} can only decode token by token; use 'ar'")
