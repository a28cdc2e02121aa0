"""Checks of arguments. Numbers of numpy and torch are turned into Python's numbers."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

Name = TypeVar("Name", bound=str)


def cause_of(error: BaseException) -> str:
    """The first line of an error's message; the error's type if the message has no first line."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def integer(value: Any) -> int | None:
    """The value as int; None if it is not an integer. A bool does not count as an integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as int if it is an integer from `least` to `most`; otherwise a ValueError names it."""
    number = integer(value)
    if number is None or number < least or (most is not None and number > most):
        end = "up" if most is None else f"to {most:,}"
        raise ValueError(f"{name} = {value!r} is not an integer from {least} {end}")
    return number


def real(value: Any) -> float | None:
    """The value as float; None if it is not a finite number. A bool does not count as a number.

    Arrays and tensors without dimensions are numbers too.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # the integer is too large for a float
        return None
    return number if math.isfinite(number) else None


def reals(value: Any) -> np.ndarray | None:
    """The value as a new float64 array; None if it contains anything but real numbers.

    Numpy's own conversion also accepts strings, and drops the imaginary part of complex numbers.
    """
    if hasattr(value, "is_complex"):  # a tensor; tested without importing torch
        return None if value.is_complex() else value.detach().cpu().double().numpy().copy()
    try:
        array = np.array(value)
        return array.astype(np.float64, copy=False) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def integers(name: str, values: Any) -> list[int]:
    """`values` as a list of int. A ValueError says that it is no list, or shows its first bad entry."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise ValueError(f"{name} = {values!r:.60} is not a list of integers")
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
    """The value if it is one of these names. Otherwise a ValueError lists the names."""
    for choice in names:
        if isinstance(value, str) and value == choice:
            return choice
    raise ValueError(f"{name} = {value!r:.60} is not one of {', '.join(names)}")


def truth(name: str, value: Any) -> bool:
    """The value as bool if it is true, false, 1 or 0; otherwise a ValueError with its name."""
    if hasattr(value, "item") and math.prod(value.shape) == 1:
        value = value.item()
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"{name} = {value!r:.60} is neither True nor False")
    return bool(value)
