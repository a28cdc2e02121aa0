"""Checks of arguments: numbers of Python, numpy and torch are turned into those of Python."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

Name = TypeVar("Name", bound=str)


def integer(value: Any) -> int | None:
    """The value as int; None if it is no integer (a bool is none)."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as int; a ValueError names it unless it is an integer from `least` to `most`."""
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
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        return None
    return number if math.isfinite(number) else None


def reals(value: Any) -> np.ndarray | None:
    """The value as a new array, float64; None where it holds anything but real numbers.

    Numpy by itself reads texts as numbers, and drops the imaginary part of complex ones.
    """
    if hasattr(value, "is_complex"):  # a tensor: whoever has none need not wait for torch
        return None if value.is_complex() else value.detach().cpu().double().numpy().copy()
    try:
        array = np.array(value)
        return array.astype(np.float64, copy=False) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def integers(name: str, values: Any) -> list[int]:
    """The values as a list of int; a ValueError names a value that is no list, or its first bad entry."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise ValueError(f"{name} = {values!r:.60} is no list of integers")
    values = list(values)
    if set(map(type, values)) <= {int}:
        return values
    checked = []
    for i, value in enumerate(values):
        number = integer(value)
        if number is None:
            raise ValueError(f"{name}[{i}] = {value!r:.60} is not an integer")
        checked.append(number)
    return checked


def among(name: str, value: Any, names: Iterable[Name]) -> Name:
    """The value; a ValueError names it unless it is one of these names."""
    for known in names:
        if isinstance(value, str) and value == known:
            return known
    raise ValueError(f"{name} = {value!r:.60} is none of {', '.join(names)}")


def truth(name: str, value: Any) -> bool:
    """The value as bool; a ValueError names it unless it is true, false, 1 or 0."""
    if hasattr(value, "item") and math.prod(value.shape) == 1:
        value = value.item()
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"{name} = {value!r:.60} is neither True nor False")
    return bool(value)
