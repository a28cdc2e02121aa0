"""Checks of the values that visitors send: texts and numbers."""

from __future__ import annotations

from typing import Any

from components.visitors import limits

LARGEST = 2**64 - 1
"""The largest whole number that a field accepts, which is the largest seed."""


def words(name: str, value: Any, most: int = 40) -> str:
    """Check that a value is a text of at most `most` characters, and return it.

    ValueError names the wrong type or length.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} = {value!r:.60} is not a text")
    limits.at_most(name, len(value), most, "characters")
    return value


def number(name: str, value: Any, least: int = 0, most: int = LARGEST, kind: str = "number") -> float:
    """Convert a value to a float. ValueError if it is missing or no number from `least` to `most`."""
    if value is None or value == "":
        raise ValueError(f"{name} is empty; give a {kind}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        is_low = isinstance(value, (int, float)) and value < least
        end = f"to {most:,}" if most != LARGEST else "up" if is_low else "to 2⁶⁴ − 1"
        raise ValueError(f"{name} = {value!r:.60} is not a {kind} from {least:,} {end}")
    return float(value)


def whole(name: str, value: Any, least: int = 0, most: int = LARGEST) -> int:
    """Convert a value to an int. ValueError if it is missing or no whole number from `least` to `most`."""
    if not number(name, value, least, most, "whole number").is_integer():
        raise ValueError(f"{name} = {value!r} is not a whole number")
    return int(value)
